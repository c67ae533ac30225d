"""The Local deployer: every environment's engine is a folder of this host, served by this process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime

from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.data_loss.survey import DataSurvey
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.folders import NOTHING_SENT, EngineFolders, EngineRecord, SentFacts
from tenantry.model.changes import MoveEngine
from tenantry.model.facts import MOVING_MARK, EngineFacts, EngineRef, EngineSpec, awaits_archive
from tenantry.model.quotas import CheckArchive, unlimited
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, Stalled, Transient
from tenantry.rest.release import VERSION

BATCH = 256
_ENGINE_IDS = uuid.UUID("0b0d7a1c-6c1e-4d0e-9a55-5b3f1c1e7a42")


class LocalDeployer:
    """ports.Deployer over EngineFolders. `closed` closes an engine of this process, and keeps it closed while it is held.
    `try_open` opens one as a record says, and closes it."""

    provider = "Local"

    def __init__(
        self,
        folders: EngineFolders,
        backups: Backups,
        base_url: str,
        closed: Callable[[str], AbstractAsyncContextManager[None]],
        databases: Databases,
        try_open: Callable[[EngineRecord], Awaitable[None]],
        survey: DataSurvey,
        check_archive: CheckArchive = unlimited,
    ) -> None:
        self._folders = folders
        self._backups = backups
        self._base_url = base_url.rstrip("/")
        self._closed = closed
        self._databases = databases
        self._try_open = try_open
        self._survey = survey
        self._check_archive = check_archive
        self._pending: list[tuple[EngineRecord, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def engine(self, ref: EngineRef, at: str | None = None) -> EngineFacts | None:
        """Return the environment's engine on this host; namespace, name and id must all match."""
        record = self._folders.find(ref)
        if record is not None:
            return self._facts(record)
        lost = self._folders.lost(ref)
        if not lost:
            return None
        record, loss = lost
        self._survey.note(ref.id, loss)
        return replace(self._facts(record), status="FAILED", missing=str(loss), archived=self._backups.holds(record))

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        """`<base url>/e/<tenant slug>/<environment slug>`, the same in every region."""
        return f"{self._base_url}/e/{tenant_slug}/{slug}"

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool = False) -> None:
        """Makes or updates the engine's folder; its database is made when it is first opened.

        Deploys that are under way at the same time share one fsync of the common directory. The engine takes the password of
        `admin` from the Secret by itself, whenever `admin` signs in. A database on a server is entered here, so that what is
        wrong with it shows on the environment.
        """
        await self.hold(spec, admin_secret, NOTHING_SENT)

    async def hold(self, spec: EngineSpec, admin_secret: Ref, sent: SentFacts) -> None:
        """Deploy the engine with the facts that were sent to its pool. An open engine is closed if its URL has changed."""
        current = self._folders.find(spec.ref)
        if current is not None and current.sent.fingerprint == sent.fingerprint:
            sent = sent._replace(password=current.sent.password)  # the same password has another hash each time
        mark = self._databases.mark(spec)
        held = current.database_mark if current else ""
        takes = current is None or current.awaits
        if takes and self._backups.staging.holds(spec.ref.id):
            await self._take_in(spec.ref)
        # As in a pod: who takes the mark off the environment gets an empty engine.
        awaits = takes and bool(spec.pool) and awaits_archive(spec.restoring) and not self._folders.was_brought(spec.ref.id)
        mark = held if awaits else mark  # nothing opens its database before
        if current and _matter(current, held) == (spec, admin_secret, mark, spec.ref.route, sent, awaits):
            return
        created = current.created_at if current else datetime.now(UTC)
        record = EngineRecord(spec, admin_secret, created, held, sent=sent, awaits=awaits)
        moved = current is not None and current.sent.url != sent.url
        if moved or (current is None and self._folders.lost(spec.ref)):
            async with self._closed(spec.ref.id):  # an open engine would go on missing its old database
                await self._save(record)
        else:
            await self._save(record)
        if mark != held:
            await self._try_open(record)
            async with self._closed(spec.ref.id):  # an open engine would go on with the database of before
                await self._save(replace(record, database_mark=mark))

    async def _save(self, record: EngineRecord) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((record, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_pending())
        await done

    async def snapshot(self, ref: EngineRef) -> None:
        """`<backups>/<environment id>-<creation of the engine>.tar`, once for each incarnation of the engine.

        While the environment has contents, only what is declared is kept: the archive is of the engine's last state.
        Raises QuotaReached.
        """
        record = self._folders.find(ref)
        if record is not None and not await self._backups.remember(record):
            self._check_archive(ref.namespace, *await self._backups.needs(record))
            await self._backups.archive(record)

    async def undeploy(self, ref: EngineRef) -> None:
        """Takes the folder away by one rename, then deletes it; a crash in between is made good at the next start."""
        async with self._closed(ref.id):
            trash = await asyncio.to_thread(self._folders.remove, ref)
        if trash:
            await asyncio.to_thread(self._folders.discard, trash)

    async def withdraw(self, ref: EngineRef) -> None:
        """Serves the engine under no path. Requests under way end with the engine, which is closed."""
        record = self._folders.find(ref)
        if record is None or record.withdrawn:
            return
        async with self._closed(ref.id):
            await self._save(replace(record, withdrawn=True))

    async def move(self, step: MoveEngine) -> None:
        """Raises a Stalled Halt (PlacementFixed): all engines of this host are in one process."""
        raise fixed_here(step.spec.ref)

    async def changes(self) -> AsyncIterator[EngineRef]:
        """Engines whose data vanished or came back: all other changes are this deployer's own."""
        async for ref in self._survey.changes():
            yield ref

    async def _take_in(self, ref: EngineRef) -> None:
        try:
            await asyncio.to_thread(self._backups.staging.take, ref, self._folders.folder(ref.id))
        except OSError as error:
            raise Halt(Transient("StateFolder", f"the restored engine cannot be registered: {error}")) from error

    async def _write_pending(self) -> None:
        while self._pending:
            batch, self._pending = self._pending[:BATCH], self._pending[BATCH:]
            try:
                await asyncio.to_thread(self._folders.save, [record for record, _ in batch])
            except OSError as error:
                failed = Halt(Transient("StateFolder", f"the engines' folder cannot be written: {error}"))
                _settle(batch, failed)
            except Exception as bug:  # noqa: BLE001 - it is raised where each deploy is waited for
                _settle(batch, bug)
            else:
                _settle(batch, None)

    def _facts(self, record: EngineRecord) -> EngineFacts:
        """spec is None until the engine has been on the database that is declared now and has the backup that was brought, and
        while its host is withdrawn: it is deployed again."""
        ref = record.ref
        entered = record.awaits or record.database_mark == self._databases.mark(record.spec)
        altered = () if entered else ("the URL of its database has changed",)
        brought = record.awaits and (self._backups.staging.holds(ref.id) or self._folders.was_brought(ref.id))
        coming = record.awaits and record.spec.restoring == MOVING_MARK
        if brought and not coming:
            altered = ("its backup was brought",)
        environment = f"local/{ref.id}"
        return EngineFacts(
            id=str(uuid.uuid5(_ENGINE_IDS, ref.id)),
            name=f"engine-{ref.slug}",
            status="RUNNING" if (entered or record.database_mark) and not record.awaits else "PENDING",
            url=record.sent.url or self.preview(record.spec.region, ref.tenant_slug, ref.slug),
            external_id=f"{environment}/engine",
            environment_external_id=environment,
            created_at=record.created_at,
            spec=record.spec if not altered and not record.withdrawn else None,
            altered=altered,
            version=VERSION,
            place=self._folders.place(record),
            route=record.route,
            credential=record.sent.fingerprint,
            pool=record.spec.pool,
            coming=("Copied" if brought else "Reserved") if coming else "",
        )


def fixed_here(ref: EngineRef) -> Halt:
    """Return the refusal of a move on a host that has one place for engines."""
    return Halt(Stalled("PlacementFixed", f"the engine of {ref.namespace}/{ref.name} has no other place on this host"))


def _matter(record: EngineRecord, mark: str) -> tuple[object, ...]:
    """Return what a deploy compares. mark: of the database that it was opened on."""
    return record.spec, record.admin_secret, mark, record.route, record.sent, record.awaits


def _settle(batch: list[tuple[EngineRecord, asyncio.Future[None]]], error: Exception | None) -> None:
    for _, done in batch:
        if done.done():  # its caller was cancelled
            continue
        if error:
            done.set_exception(error)
        else:
            done.set_result(None)
