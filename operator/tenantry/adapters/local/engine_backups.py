"""Backups of an engine alone: its folder, and where it is on PostgreSQL a logical copy of its tables."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

import orjson

from tenantry.adapters.local.archives import (
    ABOUT,
    FORMAT,
    OF_THE_PLACE,
    POSTGRESQL,
    SQLITE,
    Members,
    check,
    database_of,
    members,
    pack,
    stream,
    unpack,
)
from tenantry.adapters.store.state_folder import FolderLock
from tenantry.engine.database import FILE
from tenantry.engine.logical.dump import dump
from tenantry.engine.logical.load import check_empty, load
from tenantry.engine.logical.session import is_postgresql
from tenantry.model.resource import format_time
from tenantry.model.verdicts import Halt, Invalid, Problem, Stalled
from tenantry.rest.disk import make_durable

# All are passed over by backups. While the mark is there, the folder and the database may hold half of a restore.
_MARK = "restoring.tmp"
_FILES = "restoring.part"
_UNTOLD = "restoring-mark.tmp"


def back_up(data: Path, url: str | None, target: Path) -> None:
    """Writes an archive of that folder's engine, which may serve. Blocks. Raises Invalid, Halt, OSError, sqlite3.Error."""
    text = _about(data, url)
    if target.resolve().is_relative_to(data.resolve()):
        raise _refused(target, "is in the folder that is backed up; write it elsewhere")
    pack(text, data, target, _copied(url))


def stream_back_up(data: Path, url: str | None, out: BinaryIO, scratch: Path) -> None:
    """The same to a pipe. scratch: a folder with room for the largest database or table once more."""
    stream(_about(data, url), data, out, scratch, _copied(url))


def restore(archive: Path, data: Path, url: str | None, *, unprotected: bool = False) -> None:
    """Puts an engine into an empty folder, and an empty database where it is on one. Blocks. Raises Invalid, Halt, OSError.

    Killed at any point, it can be run again, with the same archive, and no engine starts there before.
    unprotected: see archives.check.
    """
    kind, wanted = database_of(archive), POSTGRESQL if is_postgresql(url) else SQLITE
    if kind != wanted:
        raise _refused(archive, f"is of an engine on {kind} and can be restored on {kind} alone, not on {wanted}")
    check(archive, unprotected=unprotected)
    lock = FolderLock(data)
    try:
        _restore(archive, data, url)
    finally:
        lock.release()


def receive(archive: BinaryIO, data: Path, url: str | None, scratch: Path, *, unprotected: bool = False) -> None:
    """The same out of a pipe. scratch: a folder with room for the archive, which is made."""
    scratch.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="restore-", suffix=".tar") as held:
        shutil.copyfileobj(archive, held)
        held.flush()
        restore(Path(held.name), data, url, unprotected=unprotected)


def database_size(data: Path) -> int:
    """Bytes of the engine's SQLite database, 0 where it has none in the folder. Blocks."""
    try:
        return (data / FILE).stat().st_size
    except FileNotFoundError:
        return 0


def is_restored(data: Path) -> bool:
    """Holds the folder a whole engine? Blocks."""
    names = {path.name for path in _entries(data)} if data.is_dir() else set()
    return bool(names - {_UNTOLD}) and _MARK not in names


def refuse_half_restored(data: Path) -> None:
    """Raises a Stalled Halt where a restore was interrupted."""
    if (data / _MARK).exists():
        raise Halt(Stalled("RestoreUnfinished", f"a restore into {data} was interrupted: run it again", "Operator"))


def _about(data: Path, url: str | None) -> dict[str, bytes]:
    """What the archive says of itself. Raises Invalid, Halt."""
    on_server = is_postgresql(url)
    refuse_half_restored(data)
    if not data.is_dir() or not (on_server or (data / FILE).is_file()):
        raise _refused(data, "holds no engine: there is nothing to back up")
    about = {"format": FORMAT, "takenAt": format_time(datetime.now(UTC)), "database": POSTGRESQL if on_server else SQLITE}
    return {ABOUT: orjson.dumps(about, option=orjson.OPT_INDENT_2)}


def _copied(url: str | None) -> Members | None:
    return partial(dump, url) if url is not None and is_postgresql(url) else None


def _restore(archive: Path, data: Path, url: str | None) -> None:
    mark = _begin(data, url)
    _clear(data)
    unpack(archive, data / _FILES, database=SQLITE if url is None else POSTGRESQL)
    if url is not None:
        with members(archive) as member:
            load(url, member, mark)
    for path in (data / _FILES).iterdir():
        path.rename(data / path.name)
    (data / _FILES).rmdir()
    make_durable(data)
    (data / _MARK).unlink()
    make_durable(data)


def _begin(data: Path, url: str | None) -> str:
    """Marks the folder, which must be empty, as must be the database. The mark: a new one, or that of the restore before."""
    mark = data / _MARK
    if mark.exists():
        return mark.read_text()
    there = sorted(path.name for path in _entries(data) if path.name != _UNTOLD)
    if there:
        raise _refused(data, f"is not empty: it holds {there[0]}")
    if url is not None:
        check_empty(url)
    told = secrets.token_hex(16)
    with (data / _UNTOLD).open("w") as file:
        file.write(told)
        file.flush()
        os.fsync(file.fileno())
    (data / _UNTOLD).rename(mark)
    make_durable(data)
    return told


def _clear(data: Path) -> None:
    """What stands beside the mark is of an interrupted restore."""
    for path in _entries(data):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _MARK:
            path.unlink()


def _entries(data: Path) -> Iterator[Path]:
    return (path for path in data.iterdir() if path.name not in OF_THE_PLACE)


def _refused(path: Path, reason: str) -> Invalid:
    return Invalid((Problem(str(path), reason),))
