"""Texts that a command is given in a file or on standard input: UTF-8, and no longer than what they are for."""

from __future__ import annotations

import sys
from pathlib import Path

from tenantry.cli.output.failing import BAD_INPUT, Failure


def text_of(data: bytes, place: str) -> str:
    """Return the text of bytes from a place that the message names. Raises Failure."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Failure(f"{place}: is not UTF-8 text", BAD_INPUT) from None


def text_of_file(file: Path) -> str:
    """Return the text of a file. Raises Failure, OSError."""
    return text_of(file.read_bytes(), str(file))


def standard_input(most: int) -> bytes:
    """Return standard input of at most so many bytes; a device would fill the memory. Raises Failure."""
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise Failure(f"standard input has more than {most // 2**20} MiB", BAD_INPUT)
    return data
