"""Opening a package that may be hostile: every claim of its headers is checked against what is really there."""

from __future__ import annotations

import hashlib
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import Halt, Invalid, Problem, Stalled
from tenantry.packages.manifest import LARGEST, Manifest

MANIFEST = "app.yaml"
SYMBOLS = "symbols.sym"
CONTENT = "content/"
SEED = "seed/"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""The first bytes of a file that Git LFS keeps elsewhere."""
CHUNK = 1 << 18
LONGEST_LINE = 16 << 20
"""Bytes of a seed's line at most: a row is held in memory."""
CHECKED = 64 << 20
"""Bytes of a package's seeds whose rows are checked against their tables."""
HEADER = 30
"""Bytes of a local file header before its name."""
NAME_AND_EXTRA = struct.Struct("<2H")
"""The end of a local file header, with the lengths of the parts that follow it."""
DEEPEST = 32
"""Folders of an entry's name at most: what walks an unpacked package recurses, or keeps a folder open for each."""
ENTRY = b"PK\x01\x02"
LOCATOR, LOCATOR_SIZE = b"PK\x06\x07", 20
_NO_MEMORY = "Error -4 "
"""The beginning of zlib's Z_MEM_ERROR."""
SMALL = 1 << 20
"""Inflated bytes of a whole package to which the ratio does not apply."""
END = struct.Struct("<4s4H2IH")
"""The end record: signature, two disk numbers, two entry counts, the directory's size and offset, the comment's length."""


@dataclass(frozen=True)
class PackageLimits:
    """Limits of a package, in bytes, entries, and inflated bytes per packed byte. manifest: bytes of its app.yaml.

    stored: the file was taken once, so rules for new packages (portable.py) are not asked: they may have come since.
    """

    size: int = 1 << 30
    entries: int = 10_000
    inflated: int = 4 << 30
    ratio: int = 200
    manifest: int = LARGEST
    stored: bool = False


@dataclass(frozen=True)
class OpenPackage:
    """A checked package, open for reading."""

    archive: zipfile.ZipFile
    manifest: Manifest

    @property
    def has_symbols(self) -> bool:
        return SYMBOLS in self.archive.namelist()

    def seeds(self) -> dict[str, str]:
        """Entry names by table."""
        return {
            name.removeprefix(SEED).removesuffix(".ndjson"): name
            for name in self.archive.namelist()
            if name.startswith(SEED) and name.endswith(".ndjson")
        }

    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of an entry. Raises Invalid for one that is too long to be a row."""
        with self.archive.open(name) as stream:
            while line := stream.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    raise _refused(name, f"has a line of more than {LONGEST_LINE} bytes")
                yield line

    def content(self) -> list[str]:
        """The names of the static files."""
        return [name for name in self.archive.namelist() if name.startswith(CONTENT) and not name.endswith("/")]


def inspect(path: Path, limits: PackageLimits | None = None, digests: tuple[str, str] | None = None) -> PackageFacts:
    """Check the whole package and return its facts. digests: as of `digests_of`, if they are known. Blocks. Raises Invalid."""
    with open_package(path, limits) as package:
        manifest, (sha256, blake2b) = package.manifest, digests or digests_of(path)
        return PackageFacts(
            app=manifest.id,
            version=manifest.version,
            name=manifest.name,
            author=manifest.author,
            sha256=sha256,
            size=path.stat().st_size,
            tables=len(manifest.tables),
            symbols=package.has_symbols,
            roles=tuple(manifest.roles),
            blake2b=blake2b,
        )


@contextmanager
def open_package(path: Path, limits: PackageLimits | None = None) -> Iterator[OpenPackage]:
    """Checks a package and holds it open. Blocks. Raises Invalid."""
    limits = limits or PackageLimits()
    if path.stat().st_size > limits.size:
        raise _refused("", f"is larger than {limits.size} bytes")
    try:
        check_end(path, limits)
        with path.open("rb") as raw, zipfile.ZipFile(path) as archive:
            _check_directory(archive)
            _check_spans(archive, raw, path.stat().st_size)
            _check_contents(archive, path.stat().st_size, limits)
            manifest = _small(archive, MANIFEST, limits.manifest)
            package = OpenPackage(archive, _parsed(manifest))
            if not limits.stored:
                from tenantry.packages.portable import check_portable  # as for _parsed

                check_portable(package.manifest, manifest)
            _check_seeds(package)
            yield package
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        UnicodeDecodeError,
        RuntimeError,
        OSError,
        struct.error,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        _check_memory(error)
        raise _refused("", f"is not a readable package: {error}") from error


@contextmanager
def open_checked(path: Path) -> Iterator[OpenPackage]:
    """Opens a package that was checked before it was stored: nothing is inflated but its manifest. Blocks.

    Raises a Stalled Halt (PackageDamaged) when the disk no longer holds what was stored.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            yield OpenPackage(archive, _parsed(archive.read(MANIFEST)))
    except (zipfile.BadZipFile, zlib.error, EOFError, FileNotFoundError) as error:
        _check_memory(error)
        damaged = f"the stored package {path.name} is gone or damaged ({error}): upload it again"
        raise Halt(Stalled("PackageDamaged", damaged, "Operator")) from error


def _parsed(manifest: bytes) -> Manifest:
    from tenantry.packages.parsing import parse_manifest  # with the library for YAML, which an idle engine does without

    return parse_manifest(manifest)


def _check_memory(error: Exception) -> None:
    """Raise MemoryError if this one of zlib means that: it says nothing about the package."""
    if isinstance(error, zlib.error) and str(error).startswith(_NO_MEMORY):
        raise MemoryError(str(error)) from error


def sha256_of(path: Path) -> str:
    """As hex. Blocks."""
    return _digest(path, "sha256")


def is_whole(path: Path, sha256: str) -> bool:
    """Return True if a file is there and has all its bytes; False for one that the disk does not give back. Blocks."""
    try:
        return sha256_of(path) == sha256
    except OSError:
        return False


def digests_of(path: Path) -> tuple[str, str]:
    """sha256 and BLAKE2b-512, as hex, side by side: neither holds the interpreter's lock."""
    with ThreadPoolExecutor(1) as beside:
        blake2b = beside.submit(_digest, path, "blake2b")
        return _digest(path, "sha256"), blake2b.result()


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def check_end(path: Path, limits: PackageLimits) -> None:
    """Looks at the directory before the library reads it whole: there is one only, with no more entries than allowed."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        if stream.read(len(LFS_POINTER)) == LFS_POINTER:
            raise _refused("", "is a Git LFS pointer, not a package; `git lfs pull` brings the package")
        stream.seek(max(0, size - END.size - LOCATOR_SIZE))
        tail = stream.read()
        end = tail[-END.size :]
        if len(end) < END.size or not end.startswith(b"PK\x05\x06"):
            raise _refused("", "is not a zip file, is cut short, or carries a comment")
        _, disk, first_disk, here, all_, length, offset, _ = END.unpack(end)
        if (disk, first_disk) != (0, 0) or here != all_:
            raise _refused("", "is a part of a zip file on several disks")
        # A second, 64-bit end record would be read in place of this one; nothing within the limits needs it.
        if tail.startswith(LOCATOR) or offset + length + END.size != size:
            raise _refused("", "has bytes outside of the entries in its directory")
        stream.seek(offset)
        entries = 0
        while chunk := stream.read(min(CHUNK, max(0, size - END.size - stream.tell()))):
            entries += chunk.count(ENTRY)
    if entries > limits.entries:
        raise _refused("", f"has more than {limits.entries} entries")


def _check_directory(archive: zipfile.ZipFile) -> None:
    seen: dict[str, str] = {}
    for entry in archive.infolist():
        _check_name(entry)
        folded = unicodedata.normalize("NFKC", entry.filename).casefold().rstrip("/")
        if folded in seen:
            raise _refused(entry.filename, f"collides with {seen[folded]}")
        seen[folded] = entry.filename
        if entry.flag_bits & 0x1:
            raise _refused(entry.filename, "is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _refused(entry.filename, "is packed by a method other than store and deflate")
        mode = entry.external_attr >> 16
        if mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_IFMT(mode) == 0):
            raise _refused(entry.filename, "is a link or a device")
    _check_files_are_no_folders(seen)
    if MANIFEST not in archive.namelist():
        raise _refused(MANIFEST, "is missing")


def _check_spans(archive: zipfile.ZipFile, raw: BinaryIO, size: int) -> None:
    """No two entries share bytes, as their own headers, which reading goes by, place them."""
    spans: list[tuple[int, int, str]] = []
    for entry in archive.infolist():
        start = entry.header_offset
        if not 0 <= start <= size - HEADER:
            raise _refused(entry.filename, "begins outside the file")
        raw.seek(start)
        name_length, extra_length = NAME_AND_EXTRA.unpack(raw.read(HEADER)[-NAME_AND_EXTRA.size :])
        end = start + HEADER + name_length + extra_length + entry.compress_size
        if end > size:
            raise _refused(entry.filename, "ends outside the file")
        spans.append((start, end, entry.filename))
    spans.sort()
    for (_, end, name), (start, _, other) in pairwise(spans):
        if start < end:
            raise _refused(other, f"overlaps {name}")


def _check_name(entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    if name != entry.orig_filename or "\\" in name or any(ord(c) < 32 or ord(c) == 127 for c in name):
        raise _refused(name, "has a character that no name may have")
    parts = name.rstrip("/").split("/")
    if name.startswith("/") or ":" in parts[0] or any(part in ("", ".", "..") for part in parts):
        raise _refused(name, "is not a plain path inside the package")
    if len(parts) > DEEPEST:
        raise _refused(name[:60], f"is nested deeper than {DEEPEST} folders")
    if len(name.encode()) > 1024:
        raise _refused(name[:60], "has a name of more than 1024 bytes")


def _check_files_are_no_folders(names: dict[str, str]) -> None:
    files = {folded for folded, name in names.items() if not name.endswith("/")}
    for folded, name in names.items():
        parts = folded.split("/")
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) in files:
                raise _refused(name, "lies below a file")


def _check_contents(archive: zipfile.ZipFile, size: int, limits: PackageLimits) -> None:
    """Inflates everything once, counting: headers may lie about sizes."""
    total = 0
    for entry in archive.infolist():
        inflated = 0
        with archive.open(entry) as stream:
            while chunk := stream.read(CHUNK):
                inflated += len(chunk)
                if total + inflated > limits.inflated:
                    raise _refused(entry.filename, f"the package inflates to more than {limits.inflated} bytes")
                entry_bomb = inflated > CHUNK and inflated > limits.ratio * max(1, entry.compress_size)
                if entry_bomb or total + inflated > max(SMALL, limits.ratio * size):
                    raise _refused(entry.filename, f"inflates to more than {limits.ratio} times its size")
        if inflated != entry.file_size:
            raise _refused(entry.filename, "is not as long as its header says")
        total += inflated


def _small(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    if archive.getinfo(name).file_size > largest:
        raise _refused(name, f"is larger than {largest} bytes")
    return archive.read(name)


def _check_seeds(package: OpenPackage) -> None:
    tables = {table.name for table in package.manifest.tables}
    for name in package.archive.namelist():
        if name.startswith(SEED) and not name.endswith((".ndjson", "/")):
            raise _refused(name, "is not a seed: those are named seed/<table>.ndjson")
    for table, name in package.seeds().items():
        if table not in tables:
            raise _refused(name, f"seeds a table {table!r} that app.yaml does not declare")
    if package.seeds():
        _check_rows(package)


def _check_rows(package: OpenPackage) -> None:
    """Raise Invalid for a row that does not fit its table. Only the first CHECKED bytes are read: the time is bounded."""
    from tenantry.packages.seeds import check_rows  # a package without seeds needs no database library

    left = CHECKED
    tables = {table.name: table for table in package.manifest.tables}
    for table, name in package.seeds().items():

        def bounded(name: str = name) -> Iterator[bytes]:
            nonlocal left
            for line in package.lines(name):
                left -= len(line)
                if left < 0:
                    return
                yield line

        check_rows(tables[table], bounded())


def _refused(field: str, reason: str) -> Invalid:
    return Invalid((Problem(field or "package", reason),))
