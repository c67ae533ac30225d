"""Text for terminals: what a declaration holds must not move the cursor, hide text or turn its direction."""

from __future__ import annotations

import unicodedata

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of characters that change how others are shown: controls, bidirectional marks, line separators."""
_KEPT = frozenset("\n\t")


def visible(text: str) -> str:
    """The text with every such character as its escape, `\\u202e`; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(each) if unicodedata.category(each) in HIDDEN and each not in _KEPT else each for each in text)


def is_visible(text: str) -> bool:
    """Return True if the text holds no such character."""
    return visible(text) == text


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
