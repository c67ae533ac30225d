"""The backups of a pool, for commands that run in its pod beside the process that serves the engines."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from tenantry.adapters.local.backups import FOLDER, archives_in
from tenantry.adapters.local.folders import awaiting
from tenantry.adapters.local.reading import Checked, check
from tenantry.adapters.local.signing import KEY_FILE, ArchiveKey
from tenantry.adapters.local.staging import Staging
from tenantry.adapters.store.state_folder import StateUnreadable
from tenantry.model.facts import BackupFacts, EngineRef, Trust
from tenantry.model.verdicts import NotFound


class ArchivePlace(Protocol):
    """The place where a pool keeps the archives of removed engines. Blocks."""

    key: ArchiveKey

    def kept(self) -> Sequence[BackupFacts]:
        """The archives, the newest first. Raises Halt."""

    def send(self, archive: BackupFacts, out: BinaryIO) -> None:
        """Write an archive. Raises NotFound, Halt, OSError."""

    def engine(self, id_: str) -> tuple[Path, str | None]:
        """The folder of an engine with all its files, and the URL of its database; None for SQLite. Raises Halt, OSError."""

    def awaiting(self, id_: str) -> EngineRef | None:
        """The engine with that id if it waits for its backup, None if it does not or is not there. Raises Halt."""

    def put(self, archive: Checked, ref: EngineRef, scratch: Path) -> None:
        """Bring a backup to an engine. Idempotent. scratch: a folder with room. Raises Invalid, Halt, OSError."""


class VolumePlace:
    """ArchivePlace of a pool on a volume. data: its folder; keep: how long archives stay."""

    def __init__(self, data: Path, keep: timedelta) -> None:
        self._data = data
        self._keep = keep
        self.key = ArchiveKey(data / KEY_FILE)

    def kept(self) -> Sequence[BackupFacts]:
        return archives_in(self._data / FOLDER, self._keep)

    def send(self, archive: BackupFacts, out: BinaryIO) -> None:
        with Path(archive.path).open("rb") as file:
            shutil.copyfileobj(file, out)

    def engine(self, id_: str) -> tuple[Path, str | None]:
        return self._data / "engines" / id_, None

    def awaiting(self, id_: str) -> EngineRef | None:
        try:
            return awaiting(self._data, id_)
        except sqlite3.Error as error:
            raise StateUnreadable(self._data, error) from error

    def put(self, archive: Checked, ref: EngineRef, scratch: Path) -> None:
        Staging(self._data).put(archive, ref, as_file=True)


def listing(place: ArchivePlace) -> dict[str, Any]:
    """Return the archives of removed environments as JSON, the newest first, and the public key that signs them. Blocks."""
    kept = place.kept()
    return {"key": place.key.public() if kept else "", "archives": [asdict(each) for each in kept]}


def parse_listing(told: Mapping[str, Any]) -> tuple[str, tuple[BackupFacts, ...]]:
    """Return the key and the archives of a listing. Raises KeyError, TypeError."""
    return str(told["key"]), tuple(BackupFacts(**each) for each in told["archives"])


def send(place: ArchivePlace, id_: str, out: BinaryIO) -> None:
    """Write the newest archive of the environment with that id. Blocks. Raises NotFound, Halt, OSError."""
    newest = next((facts for facts in place.kept() if facts.id == id_), None)
    if newest is None:
        raise NotFound(f"the pool has no archive of an environment with the id {id_}")
    place.send(newest, out)
    out.flush()


def receive(place: ArchivePlace, archive: BinaryIO, id_: str, scratch: Path, trust: Trust) -> None:
    """Unpack an archive for an engine of the pool that waits for it. Idempotent. scratch: a folder with room for the archive.

    The pool takes it in when the operator deploys the engine the next time. Blocks. Raises NotFound, Invalid, Halt, OSError.
    """
    ref = place.awaiting(id_)
    if ref is None:
        raise NotFound(f"no engine with the id {id_} waits for a backup in this pool")
    scratch.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="restore-", suffix=".tar") as held:
        shutil.copyfileobj(archive, held)
        held.flush()
        checked = check(Path(held.name), trust.with_key(place.key.public()))
        place.put(checked, ref, scratch)
