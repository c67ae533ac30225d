"""A file as its difference from an earlier copy, by blocks. All calls block."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

SMALLEST = 1 << 16
MOST = 1 << 17
"""Blocks of a file: those of a large file are larger."""
_SUM = hashlib.sha256().digest_size
_WIDTH = Struct(">Q")
LARGEST = _WIDTH.size + MOST * _SUM
"""Bytes of the digests of a file, packed."""
_HEAD = Struct(f">Q{_SUM}s")
"""Bytes of the file, and the digest of the digests of its blocks. Each changed block follows, after its number."""


class Blocks(NamedTuple):
    """The SHA-256 of each block of a file, one after the other. width: bytes of a block."""

    width: int
    sums: bytes

    def packed(self) -> bytes:
        """Return them as bytes, which `parse_blocks` takes."""
        return _WIDTH.pack(self.width) + self.sums

    def of(self, number: int) -> bytes:
        """Return the digest of a block, `b""` if the file has no such block."""
        return self.sums[number * _SUM : (number + 1) * _SUM]


def parse_blocks(packed: bytes) -> Blocks:
    """Raises ValueError."""
    width, sums = int.from_bytes(packed[: _WIDTH.size], "big"), packed[_WIDTH.size :]
    if width < SMALLEST or len(sums) % _SUM:
        raise ValueError("these are no digests of blocks")
    return Blocks(width, sums)


def blocks_of(path: Path) -> Blocks:
    """Return the digests of a file. Raises OSError."""
    size, width = path.stat().st_size, SMALLEST
    while size > width * MOST:
        width *= 2
    return Blocks(width, b"".join(sum_ for sum_, _ in _read(path, width)))


def write_changes(path: Path, earlier: Blocks, target: Path) -> None:
    """Write the blocks of a file that are not those of its earlier copy. Raises OSError."""
    sums = bytearray()
    with target.open("wb") as out:
        out.write(bytes(_HEAD.size))
        for number, (sum_, block) in enumerate(_read(path, earlier.width)):
            sums += sum_
            if sum_ != earlier.of(number):
                out.write(_WIDTH.pack(number) + block)
        out.seek(0)
        out.write(_HEAD.pack(path.stat().st_size, hashlib.sha256(sums).digest()))


def apply_changes(changes: Path, path: Path, earlier: Blocks) -> None:
    """Make the earlier copy what the changed file is; it is durable on return. Raises ValueError if it does not become that,
    OSError."""
    with changes.open("rb") as given, path.open("r+b") as file:
        size, wanted = _HEAD.unpack(_exactly(given, _HEAD.size))
        count = -(-size // earlier.width)
        sums = bytearray(earlier.sums[: count * _SUM].ljust(count * _SUM, b"\0"))
        while number := given.read(_WIDTH.size):
            at = int.from_bytes(number, "big")
            if at >= count:
                raise ValueError(f"block {at} is beyond the file")
            block = _exactly(given, min(earlier.width, size - at * earlier.width))
            sums[at * _SUM : (at + 1) * _SUM] = hashlib.sha256(block).digest()
            os.pwrite(file.fileno(), block, at * earlier.width)
        if hashlib.sha256(sums).digest() != wanted:
            raise ValueError("the blocks do not make the file")
        file.truncate(size)
        os.fsync(file.fileno())


def _read(path: Path, width: int) -> Iterator[tuple[bytes, bytes]]:
    with path.open("rb") as file:
        while block := file.read(width):
            yield hashlib.sha256(block).digest(), block


def _exactly(file: BinaryIO, size: int) -> bytes:
    found = file.read(size)
    if len(found) != size:
        raise ValueError("the end is missing")
    return found
