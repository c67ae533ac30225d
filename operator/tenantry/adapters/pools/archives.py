"""The backups in a pool's volume, for commands that run in its pod beside the process that serves the engines."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from tenantry.adapters.local.archives import POSTGRESQL, SQLITE
from tenantry.adapters.local.backups import FOLDER, archives_in
from tenantry.adapters.local.folders import awaiting
from tenantry.adapters.local.reading import check, holds_rows, members
from tenantry.adapters.local.server_copies import load
from tenantry.adapters.local.signing import KEY_FILE, ArchiveKey
from tenantry.adapters.local.staging import Staging
from tenantry.model.facts import BackupFacts, Trust
from tenantry.model.verdicts import Invalid, NotFound, Problem


def listing(data: Path, keep: timedelta) -> dict[str, Any]:
    """Return the archives of removed environments as JSON, the newest first, and the public key that signs them. Blocks."""
    kept = archives_in(data / FOLDER, keep)
    return {"key": ArchiveKey(data / KEY_FILE).public() if kept else "", "archives": [asdict(each) for each in kept]}


def parse_listing(told: Mapping[str, Any]) -> tuple[str, tuple[BackupFacts, ...]]:
    """Return the key and the archives of a listing. Raises KeyError, TypeError."""
    return str(told["key"]), tuple(BackupFacts(**each) for each in told["archives"])


def send(data: Path, id_: str, keep: timedelta, out: BinaryIO) -> None:
    """Write the newest archive of the environment with that id. Blocks. Raises NotFound, OSError."""
    for facts in archives_in(data / FOLDER, keep):
        if facts.id == id_:
            with Path(facts.path).open("rb") as archive:
                shutil.copyfileobj(archive, out)
            out.flush()
            return
    raise NotFound(f"{data / FOLDER} has no archive of an environment with the id {id_}")


def receive(archive: BinaryIO, data: Path, id_: str, scratch: Path, trust: Trust, url: str | None = None) -> None:
    """Unpack an archive for an engine of the pool that waits for it. Idempotent. scratch: a folder with room for the archive;
    url: of the engine's database in a pool on a server, whose rows come there.

    The pool takes it in when the operator deploys the engine the next time. Blocks. Raises NotFound, Invalid, OSError,
    sqlite3.Error, Halt.
    """
    ref = awaiting(data, id_)
    if ref is None:
        raise NotFound(f"no engine with the id {id_} waits for a backup in this pool")
    scratch.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="restore-", suffix=".tar") as held:
        shutil.copyfileobj(archive, held)
        held.flush()
        checked = check(Path(held.name), trust.with_key(ArchiveKey(data / KEY_FILE).public()))
        wanted = SQLITE if url is None else POSTGRESQL
        if checked.database != wanted:
            told = f"is of an engine on {checked.database}, and the engines of this pool are on {wanted}"
            raise Invalid((Problem("backup", told),))
        staging = Staging(data)
        if url is None or not holds_rows(checked):
            staging.put(checked, ref)
            return
        staging.put(checked, ref)
        with members(checked) as member:
            load(url, member, id_)
        staging.end_rows(ref)
