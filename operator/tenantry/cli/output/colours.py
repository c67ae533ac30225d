"""Colours of a terminal. NO_COLOR and TERM=dumb switch them off; a pipe gets plain text."""

from __future__ import annotations

import os
from typing import TextIO

BOLD, RED, GREEN, YELLOW, BLUE = "1", "31", "32", "33", "34"


def has_colour(stream: TextIO) -> bool:
    """True for a terminal whose owner did not switch colours off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb")


def painted(text: str, colour: str, stream: TextIO) -> str:
    """The text in that colour where the stream shows colours; `""` is none. The text is safe for a terminal already."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and has_colour(stream) else text
