"""The backups of this host: of engines that run, and in `<state>/backups` of those that were removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import structlog
import yaml

from tenantry.adapters.local.archives import (
    POSTGRESQL,
    SQLITE,
    Packing,
    environment_of,
    joined,
    mark_backed_up,
    mark_of,
    misfit,
    to_yaml,
    write,
)
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.adapters.local.reading import Checked, check, holds_rows, members, read
from tenantry.adapters.local.server_copies import check_empty, dump, load
from tenantry.adapters.local.signing import KEY_FILE, ArchiveKey
from tenantry.adapters.local.staging import Staging
from tenantry.model.facts import Backup, BackupFacts, EngineRef, Trust
from tenantry.model.resource import Document, format_time
from tenantry.model.verdicts import AlreadyExists, Invalid, NotFound, Problem
from tenantry.rest.disk import make_durable

KEEP = timedelta(days=30)
FOLDER = "backups"
ARCHIVE = ".tar"
DECLARED = ".yaml"
Declared = Callable[[EngineRef], Sequence[Document]]
"""Return the present declarations of an environment, without state and secrets: the Environment, then its contents."""
log = structlog.get_logger(__name__)


class Backups:
    """Writes, lists and stages archives. keep: how long one of a removed engine stays; key_file: of the key that signs them.

    keys: the engines' own keys are in those that are not encrypted, too.
    """

    def __init__(
        self,
        state: Path,
        folders: EngineFolders,
        declared: Declared,
        keep: timedelta = KEEP,
        databases: Databases | None = None,
        key_file: Path | None = None,
        keys: bool = False,
    ) -> None:
        self._databases = databases
        self.folder = state / FOLDER
        self.staging = Staging(state)
        self.staging.clear()
        self._folders = folders
        self._declared = declared
        self._keep = keep
        self.key = ArchiveKey(key_file or state / KEY_FILE)
        self._keys = keys

    async def write(self, ref: EngineRef, target: Path, recipients: Sequence[str]) -> BackupFacts:
        """Backs an engine up while it runs. recipients: public keys of age. Raises NotFound (no engine of this host), Halt,
        OSError."""
        record = self._folders.find(ref)
        if record is None:
            raise NotFound(f"environment {ref.namespace}/{ref.name} has no engine on this host, so there is nothing to back up")
        url = await self._databases.pinned(record.spec) if self._databases is not None and record.database_mark else None
        kind, copy = (POSTGRESQL, partial(dump, url)) if url is not None else (SQLITE, None)
        backup = Backup(record.ref, datetime.now(UTC), tuple(self._declared(ref)), kind)
        packing = Packing(self.key, recipients, self._keys)
        folder = self._folders.folder(ref.id)
        await asyncio.to_thread(write, backup, folder, target, packing, copy)
        await asyncio.to_thread(mark_backed_up, folder)
        signed = replace(backup, signer=await asyncio.to_thread(self.key.public))
        return await asyncio.to_thread(facts_of, signed, target)

    async def remember(self, record: EngineRecord) -> bool:
        """Before its contents go, keeps what is declared of an environment. False when they are gone already."""
        documents = self._declared(record.ref)
        if len(documents) < 2:
            return False
        await asyncio.to_thread(self._remember, record, documents)
        return True

    async def needs(self, record: EngineRecord) -> tuple[int, int]:
        """Bytes of the archives of the engine's namespace, and of what an archive of the engine would add at most."""
        kept = sum(facts.size for facts in await self.kept() if facts.namespace == record.ref.namespace)
        return kept, await asyncio.to_thread(self._size, record)

    async def archive(self, record: EngineRecord) -> None:
        """Keeps the engine itself, once for each incarnation, with all that was remembered. Raises Halt, OSError.

        Rows in a database that its owner keeps stay there alone.
        """
        url = None
        if self._databases is not None and record.database_mark and not self._databases.kept_by_owner:
            url = await self._databases.pinned(record.spec)
        await asyncio.to_thread(self._archive, record, self._declared(record.ref), url)

    def holds(self, record: EngineRecord) -> bool:
        """Return True if that incarnation of the engine is archived. Blocks for one look at the disk."""
        return self._path(record, ARCHIVE).exists()

    async def kept(self) -> tuple[BackupFacts, ...]:
        """Return the archives of removed engines, the newest first. Other files are logged."""
        return await asyncio.to_thread(archives_in, self.folder, self._keep)

    async def find(self, given: str, trust: Trust) -> Checked:
        """The file of that path, or the newest archive of the environment with that id. Raises NotFound, Invalid, OSError."""
        trust = trust.with_key(await asyncio.to_thread(self.key.public))
        if await asyncio.to_thread(Path(given).is_file):
            return await asyncio.to_thread(check, Path(given), trust)
        for facts in await self.kept():
            if facts.id == given:
                return await asyncio.to_thread(check, Path(facts.path), trust)
        raise NotFound(f"{given}: no such file, and no backup of an environment with that id; see `tenantry backups`")

    async def read(self, archive: Checked) -> Backup:
        """Raises Invalid, OSError."""
        return await asyncio.to_thread(read, archive)

    async def stage(self, archive: Checked, ref: EngineRef) -> None:
        """Lays the engine's files ready for the first deploy of that environment. Raises AlreadyExists while an engine of
        that id is kept here, Invalid, Halt, OSError."""
        if self._folders.find(ref) is not None:
            raise AlreadyExists(
                f"this host keeps an engine of environment {ref.namespace}/{ref.name} with id {ref.id}: "
                "declare the Environment with that spec.id to have it back as it is"
            )
        backup = await self.read(archive)
        problem = misfit(backup)
        if problem:
            raise Invalid((Problem(str(archive.path), problem),))
        if holds_rows(archive):
            await asyncio.to_thread(check_empty, await self._database(backup, ref))
        await asyncio.to_thread(self.staging.put, archive, ref)

    def mark(self, archive: Checked, backup: Backup) -> str:
        """`<environment id>@<when it was taken>`."""
        return mark_of(backup)

    async def fill(self, archive: Checked, ref: EngineRef) -> None:
        """Puts the rows of an engine on a server into its database; the rest is taken in by the first deploy. Idempotent.

        Raises Invalid (the database holds an engine), Halt, OSError.
        """
        mark = await asyncio.to_thread(self.staging.waiting_rows, ref)
        if mark:
            url = await self._database(await self.read(archive), ref)
            await asyncio.to_thread(_load, archive, url, mark)
            await asyncio.to_thread(self.staging.end_rows, ref)

    async def _database(self, backup: Backup, ref: EngineRef) -> str:
        """Return the URL in the Secret that the archive's Environment names, in the namespace of the restored one.

        Raises Invalid (this host serves no databases), Halt.
        """
        declared = environment_of(backup).spec.engine.database
        if self._databases is None or declared is None:
            raise Invalid((Problem("spec.engine.database", "is not served here: restore it on the host of its engine"),))
        return await self._databases.pinned_url(ref.namespace, declared.secret_ref.name, declared.secret_ref.key)

    async def run(self, period_s: float) -> None:
        """Removes what need not be kept any more, now and every period, without end."""
        while True:
            try:
                await asyncio.to_thread(self.sweep)
            except OSError as error:
                log.error("backups cannot be swept", error=str(error))
            await asyncio.sleep(period_s)

    def sweep(self) -> None:
        """Removes what is older than is kept. Blocks. Raises OSError."""
        oldest = time.time() - self._keep.total_seconds()
        for path in _files(self.folder, ARCHIVE) + _files(self.folder, DECLARED):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
        self.staging.sweep(self._keep)

    def _remember(self, record: EngineRecord, documents: Sequence[Document]) -> None:
        path = self._path(record, DECLARED)
        unfinished = path.with_suffix(".tmp")
        unfinished.touch(mode=0o600)
        unfinished.write_bytes(to_yaml(self._all(record, documents)))
        make_durable(unfinished)
        unfinished.replace(path)
        make_durable(self.folder)

    def _archive(self, record: EngineRecord, documents: Sequence[Document], url: str | None) -> None:
        folder = self._folders.folder(record.ref.id)
        target = self._path(record, ARCHIVE)
        if folder.exists() and not target.exists():  # never opened: it holds nothing
            kind = POSTGRESQL if record.database_mark else SQLITE
            backup = Backup(record.ref, datetime.now(UTC), self._all(record, documents), kind)
            # A database that its owner does not keep is on a server whose name tenants do not read.
            copy = partial(dump, url, named=False) if url is not None else None
            write(backup, folder, target, Packing(self.key, keys=self._keys), copy)
        self._path(record, DECLARED).unlink(missing_ok=True)

    def _size(self, record: EngineRecord) -> int:
        """Return 0 if the archive exists, or if the engine was never opened and holds nothing."""
        if self.holds(record):
            return 0
        folder = self._folders.folder(record.ref.id)
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def _all(self, record: EngineRecord, documents: Sequence[Document]) -> tuple[Document, ...]:
        """Return the declarations, with the remembered ones."""
        path = self._path(record, DECLARED)
        return joined(documents, tuple(yaml.safe_load_all(path.read_bytes())) if path.exists() else ())

    def _path(self, record: EngineRecord, suffix: str) -> Path:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder / f"{record.ref.id}-{record.created_at.strftime('%Y%m%dT%H%M%S%fZ')}{suffix}"


def archives_in(folder: Path, keep: timedelta) -> tuple[BackupFacts, ...]:
    """Return the archives in a folder, the newest first. Others of its files are logged. Blocks."""
    found = []
    for path in _files(folder, ARCHIVE):
        try:
            until = datetime.fromtimestamp(path.stat().st_mtime, UTC) + keep
            found.append(facts_of(read(path), path, format_time(until.replace(microsecond=0))))
        except FileNotFoundError:  # swept since the listing
            continue
        except (Invalid, OSError) as error:
            log.error("a backup cannot be read", path=str(path), error=str(error))
    return tuple(sorted(found, key=lambda facts: facts.taken, reverse=True))


def facts_of(backup: Backup, path: Path, kept_until: str = "") -> BackupFacts:
    """Return the facts of an archive of it. Blocks. Raises OSError."""
    ref, size = backup.ref, path.stat().st_size
    taken = format_time(backup.taken)
    return BackupFacts(ref.id, ref.namespace, ref.name, taken, size, kept_until, str(path.absolute()), backup.signer)


def _load(archive: Checked, url: str, mark: str) -> None:
    with members(archive) as member:
        load(url, member, mark)


def _files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))
