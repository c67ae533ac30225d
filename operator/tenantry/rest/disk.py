"""Writing to the disk: whole and durable, and where that cannot be, an answer that says so."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tenantry.model.verdicts import Halt, Transient


@contextmanager
def writing_to_disk() -> Iterator[None]:
    """What the disk refuses, because it is full or fails, is answered 503. Raises a Transient Halt (DiskUnwritable)."""
    try:
        yield
    except OSError as error:
        raise Halt(Transient("DiskUnwritable", f"the disk cannot be written: {error.strerror or error}")) from error


def write_whole(file: BinaryIO, pieces: Iterable[bytes]) -> None:
    """Writes all of each piece, however little an unbuffered file takes at a time. Blocks. Raises Halt."""
    with writing_to_disk():
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[file.write(rest) :]


def make_durable(path: Path) -> None:
    """Makes a file's bytes, or the names in a folder, survive a power cut. Blocks. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
