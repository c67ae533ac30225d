"""The backups of this host: of engines that run, and in `<state>/backups` of those that were removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
import yaml

from tenantry.adapters.local.archives import POSTGRESQL, SQLITE, Backup, check, database_of, joined, mark_of, read, to_yaml, write
from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.adapters.local.staging import Staging
from tenantry.model.facts import BackupFacts, EngineRef
from tenantry.model.resource import Document, format_time
from tenantry.model.verdicts import AlreadyExists, Invalid, NotFound, Problem
from tenantry.rest.disk import make_durable

KEEP = timedelta(days=30)
ARCHIVE = ".tar"
DECLARED = ".yaml"
Declared = Callable[[EngineRef], Sequence[Document]]
"""What is declared of an environment now, without state and secrets: the Environment, then its contents."""
log = structlog.get_logger(__name__)


class Backups:
    """Writes, lists and stages archives. keep: how long one of a removed engine stays."""

    def __init__(self, state: Path, folders: EngineFolders, declared: Declared, keep: timedelta = KEEP) -> None:
        self.folder = state / "backups"
        self.staging = Staging(state)
        self._folders = folders
        self._declared = declared
        self._keep = keep

    async def write(self, ref: EngineRef, target: Path) -> BackupFacts:
        """Backs an engine up while it runs. Raises NotFound (no engine of this host), Halt, OSError."""
        record = self._folders.find(ref)
        if record is None:
            raise NotFound(f"environment {ref.namespace}/{ref.name} has no engine on this host, so there is nothing to back up")
        backup = Backup(record.ref, datetime.now(UTC), tuple(self._declared(ref)))
        await asyncio.to_thread(write, backup, self._folders.folder(ref.id), target)
        return await asyncio.to_thread(facts_of, target, "")

    async def remember(self, record: EngineRecord) -> bool:
        """Before its contents go, keeps what is declared of an environment. False when they are gone already."""
        documents = self._declared(record.ref)
        if len(documents) < 2:
            return False
        await asyncio.to_thread(self._remember, record, documents)
        return True

    async def archive(self, record: EngineRecord) -> None:
        """Keeps the engine itself, once for each incarnation, with all that was remembered. Raises Halt, OSError."""
        await asyncio.to_thread(self._archive, record, self._declared(record.ref))

    async def kept(self) -> tuple[BackupFacts, ...]:
        """The archives of removed engines, the newest first. What is none is told in the log."""
        return await asyncio.to_thread(self._list)

    async def find(self, given: str) -> Path:
        """The file of that path, or the newest archive of the environment with that id. Raises NotFound."""
        if await asyncio.to_thread(Path(given).is_file):
            return Path(given)
        for facts in await self.kept():
            if facts.id == given:
                return Path(facts.path)
        raise NotFound(f"{given}: no such file, and no backup of an environment with that id; see `tenantry backups`")

    async def read(self, archive: Path) -> Backup:
        """Raises Invalid, OSError."""
        return await asyncio.to_thread(read, archive)

    async def stage(self, archive: Path, ref: EngineRef) -> None:
        """Lays the engine's files ready for the first deploy of that environment. Raises AlreadyExists while an engine of
        that id is kept here, Invalid, Halt, OSError."""
        if self._folders.find(ref) is not None:
            raise AlreadyExists(
                f"this host keeps an engine of environment {ref.namespace}/{ref.name} with id {ref.id}: "
                "declare the Environment with that spec.id to have it back as it is"
            )
        if await asyncio.to_thread(database_of, archive) != SQLITE:
            problem = f"is of an engine on {POSTGRESQL}; engines of this host are on {SQLITE}: restore it on a cluster"
            raise Invalid((Problem(str(archive), problem),))
        await asyncio.to_thread(check, archive)
        await asyncio.to_thread(self.staging.put, archive, ref)

    def mark(self, archive: Path, backup: Backup) -> str:
        """`<environment id>@<when it was taken>`."""
        return mark_of(backup)

    async def fill(self, archive: Path, ref: EngineRef) -> None:
        """Nothing: what is staged is taken in by the first deploy."""

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

    def _archive(self, record: EngineRecord, documents: Sequence[Document]) -> None:
        folder = self._folders.folder(record.ref.id)
        target = self._path(record, ARCHIVE)
        if folder.exists() and not target.exists():  # never opened: it holds nothing
            backup = Backup(record.ref, datetime.now(UTC), self._all(record, documents))
            write(backup, folder, target)
        self._path(record, DECLARED).unlink(missing_ok=True)

    def _all(self, record: EngineRecord, documents: Sequence[Document]) -> tuple[Document, ...]:
        """What is declared, with what was remembered of it."""
        path = self._path(record, DECLARED)
        return joined(documents, tuple(yaml.safe_load_all(path.read_bytes())) if path.exists() else ())

    def _path(self, record: EngineRecord, suffix: str) -> Path:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder / f"{record.ref.id}-{record.created_at.strftime('%Y%m%dT%H%M%S%fZ')}{suffix}"

    def _list(self) -> tuple[BackupFacts, ...]:
        found = []
        for path in _files(self.folder, ARCHIVE):
            try:
                until = datetime.fromtimestamp(path.stat().st_mtime, UTC) + self._keep
                found.append(facts_of(path, format_time(until.replace(microsecond=0))))
            except FileNotFoundError:  # swept meanwhile
                continue
            except (Invalid, OSError) as error:
                log.error("a backup cannot be read", path=str(path), error=str(error))
        return tuple(sorted(found, key=lambda facts: facts.taken, reverse=True))


def facts_of(path: Path, kept_until: str) -> BackupFacts:
    """What an archive is. Blocks. Raises Invalid, OSError."""
    backup = read(path)
    ref = backup.ref
    taken = format_time(backup.taken)
    return BackupFacts(ref.id, ref.namespace, ref.name, taken, path.stat().st_size, kept_until, str(path.absolute()))


def _files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))
