"""The commands of docs/healthy.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "healthy.md"
_BLOCK = re.compile(r"^```sh[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")


def commands_of(tool: str) -> list[tuple[str, str]]:
    """Return the title of each section with each of its commands that begin with a word.

    A sentence has a command where it says what the command is about: NAME.
    """
    found = []
    for title, section in _sections():
        lines = [line for block in _BLOCK.findall(section) for line in block.replace("\\\n", " ").splitlines()]
        lines += [code for code in _inline(section) if "NAME" in code.split()]
        found += [(title, line) for line in lines if line.split(maxsplit=1)[0] == tool]
    return found


def expressions() -> dict[str, str]:
    """Return the expressions for Prometheus in sentences, by section."""
    return {title: code for title, section in _sections() for code in _inline(section) if "(rate(" in code}


def _sections() -> list[tuple[str, str]]:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return [(each.partition("\n")[0], each) for each in sections]


def _inline(section: str) -> list[str]:
    """Return the code of sentences, each on one line."""
    return [" ".join(code.split()) for code in _INLINE.findall(_BLOCK.sub("", section))]
