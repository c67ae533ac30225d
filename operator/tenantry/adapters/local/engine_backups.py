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

from tenantry.adapters.age import is_encrypted
from tenantry.adapters.local.archives import (
    ABOUT,
    FORMAT,
    OF_THE_PLACE,
    POSTGRESQL,
    SQLITE,
    Members,
    Packing,
    mark_backed_up,
    pack,
    stream,
)
from tenantry.adapters.local.half_restored import MARK, refuse_half_restored
from tenantry.adapters.local.members import scratch_folder
from tenantry.adapters.local.reading import Checked, check, in_clear
from tenantry.adapters.local.server_copies import check_empty, dump, unpack_as_file, unpack_to_server
from tenantry.adapters.local.signing import KEY_FILE, ArchiveKey
from tenantry.adapters.store.state_folder import FolderLock
from tenantry.engine.logical.session import is_postgresql
from tenantry.engine.sealing import Sealing
from tenantry.engine.sql.files import FILE
from tenantry.model.facts import Trust
from tenantry.model.resource import format_time
from tenantry.model.verdicts import Invalid, Problem
from tenantry.rest.disk import make_durable

# All are passed over by backups. While the mark is there, the folder and the database may hold half of a restore.
_FILES = "restoring.part"
_UNTOLD = "restoring-mark.tmp"


def back_up(data: Path, url: str | None, target: Path, packing: Packing) -> None:
    """Writes an archive of that folder's engine, which may serve. Blocks. Raises Invalid, Halt, OSError, sqlite3.Error."""
    text = _about(data, url)
    if target.resolve().is_relative_to(data.resolve()):
        raise _refused(target, "is in the folder that is backed up; write it elsewhere")
    pack(text, data, target, packing, _copied(url))
    mark_backed_up(data)


def stream_back_up(data: Path, url: str | None, out: BinaryIO, scratch: Path, packing: Packing) -> None:
    """The same to a pipe. scratch: a folder with room for the largest database or table once more."""
    stream(_about(data, url), data, out, scratch, packing, _copied(url))
    out.flush()
    mark_backed_up(data)


def restore(archive: Path, data: Path, url: str | None, trust: Trust, identity: Path | None = None) -> None:
    """Puts an engine into an empty folder, and an empty database where it is on one. Blocks. Raises Invalid, Halt, OSError.

    Killed at any point, it can be run again, with the same archive, and no engine starts there before.
    trust: besides the key of that folder. identity: a file with the key of age that opens the archive; it is decrypted beside
    the folder.
    """
    if identity is None or not is_encrypted(archive):
        return _restore_plain(archive, data, url, trust)
    data.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(data.parent) as scratch, in_clear(archive, identity, scratch) as plain:
        return _restore_plain(plain, data, url, trust)


def receive(archive: BinaryIO, data: Path, url: str | None, scratch: Path, trust: Trust, identity: Path | None = None) -> None:
    """The same out of a pipe. scratch: a folder with room for the archive, which is made; twice that if it is encrypted."""
    scratch.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="restore-", suffix=".tar") as held:
        shutil.copyfileobj(archive, held)
        held.flush()
        with in_clear(Path(held.name), identity, scratch) as plain:
            _restore_plain(plain, data, url, trust)


def key_of(data: Path, key_file: Path | None) -> ArchiveKey:
    """The key that signs the archives of that folder's engine, unless another file is given."""
    return ArchiveKey(key_file or data / KEY_FILE)


def database_size(data: Path) -> int:
    """Bytes of the engine's SQLite database, 0 where it has none in the folder. Blocks."""
    try:
        return (data / FILE).stat().st_size
    except FileNotFoundError:
        return 0


def is_restored(data: Path) -> bool:
    """Holds the folder a whole engine? Blocks."""
    names = {path.name for path in _entries(data)} if data.is_dir() else set()
    return bool(names - {_UNTOLD}) and MARK not in names


def _about(data: Path, url: str | None) -> dict[str, bytes]:
    """Return the description of the archive. Raises Invalid, Halt."""
    on_server = is_postgresql(url)
    refuse_half_restored(data)
    if not data.is_dir() or not (on_server or (data / FILE).is_file()):
        raise _refused(data, "holds no engine, so there is nothing to back up")
    about = {"format": FORMAT, "takenAt": format_time(datetime.now(UTC)), "database": POSTGRESQL if on_server else SQLITE}
    return {ABOUT: orjson.dumps(about, option=orjson.OPT_INDENT_2)}


def _copied(url: str | None) -> Members | None:
    return partial(dump, url) if url is not None and is_postgresql(url) else None


def _restore_plain(archive: Path, data: Path, url: str | None, trust: Trust) -> None:
    is_postgresql(url)  # or it raises Invalid
    checked = check(archive, trust.with_key(key_of(data, None).public()))
    lock = FolderLock(data)
    try:
        _restore(checked, data, url)
    finally:
        lock.release()


def _restore(archive: Checked, data: Path, url: str | None) -> None:
    mark = _begin(data, url)
    _clear(data)
    if url is not None:
        unpack_to_server(archive, data / _FILES, url, mark)
    else:
        unpack_as_file(archive, data / _FILES)
    # Unless the archive brought them; on a server they also say that this folder is that of the database.
    Sealing(data / _FILES).make_key()
    for path in (data / _FILES).iterdir():
        path.rename(data / path.name)
    (data / _FILES).rmdir()
    make_durable(data)
    (data / MARK).unlink()
    make_durable(data)


def _begin(data: Path, url: str | None) -> str:
    """Marks the folder, which must be empty, as must be the database. The mark: a new one, or that of the restore before."""
    mark = data / MARK
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
    """Remove the rest of an interrupted restore beside its mark."""
    for path in _entries(data):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()


def _entries(data: Path) -> Iterator[Path]:
    return (path for path in data.iterdir() if path.name not in OF_THE_PLACE)


def _refused(path: Path, reason: str) -> Invalid:
    return Invalid((Problem(str(path), reason),))
