"""Archives of an engine's folder: a tar file whose databases are consistent copies."""

from __future__ import annotations

import io
import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

RECORD = "engine.json"
_MAGIC = b"SQLite format 3\x00"
_LIVE = ("-wal", "-shm", "-journal", ".tmp", ".part")


def archive(folder: Path, record: bytes, target: Path) -> None:
    """Writes the archive of an engine's folder and record to `target`, by one rename. Blocks. Raises OSError, sqlite3.Error."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".snapshot-", dir=target.parent) as scratch:
        unfinished = Path(scratch) / "archive.tar"
        with unfinished.open("wb") as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                about = tarfile.TarInfo(RECORD)
                about.size = len(record)
                tar.addfile(about, io.BytesIO(record))
                for path in _files(folder):
                    tar.add(_still(path, Path(scratch)), arcname=str(path.relative_to(folder)), recursive=False)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(target)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.endswith(_LIVE):
            yield path


def _still(path: Path, scratch: Path) -> Path:
    """The file itself, or of a database that is being written a consistent copy."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return path
    copy = scratch / "database"
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy
