"""Writing to the disk: whole and durable, and where that cannot be, an answer that says so."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tenantry.model.verdicts import Halt, Transient


@contextmanager
def writing_to_disk() -> Iterator[None]:
    """Turn refusals of a full or failing disk into 503. Raises a Transient Halt (DiskUnwritable)."""
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


def folder_size(folder: Path) -> int:
    """Return the bytes of all files in it. One that goes in between counts as none. Blocks."""
    sizes = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            sizes += path.lstat().st_size if path.is_file() else 0
    return sizes


def make_durable(path: Path) -> None:
    """Makes a file's bytes, or the names in a folder, survive a power cut. Blocks. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_anew(path: Path, content: bytes, *, durable: bool) -> None:
    """Write a file for its owner alone, in place of what is there: readers see the one or the other. Blocks. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).rename(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_once(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, durably, unless there is one: of two at once the first counts, for both.

    Blocks. Raises OSError.
    """
    descriptor, temporary = tempfile.mkstemp(".tmp", f"{path.name}-", path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        Path(temporary).unlink()
    make_durable(path.parent)
