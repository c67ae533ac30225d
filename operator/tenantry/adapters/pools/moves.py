"""The engines that move into a pool or out of it. One that comes has its place, and nothing opens it before it is whole."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders, EngineRecord, SentFacts
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.local.reading import check
from tenantry.adapters.moving.leaving import LeavingDatabase, LeavingEngine, LeavingFile, Packed, held_archive
from tenantry.adapters.moving.room import CopyRoom
from tenantry.adapters.moving.wire import PREPARED
from tenantry.model.facts import MOVING_MARK, EngineRef, EngineSpec, Trust
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, NotFound, Transient, Waiting

log = structlog.get_logger(__name__)
FORGOTTEN = timedelta(hours=1)
"""The time after which a place is free again for whose engine nothing came: its operator decided otherwise, and is gone."""
NO_SECRET = Ref("Secret", "", "")


class PoolMoves:
    """The moves of one pool, into it and out of it."""

    def __init__(
        self, folders: EngineFolders, backups: Backups, deployer: LocalDeployer, hosting: LocalHosting, room: CopyRoom
    ) -> None:
        self._folders = folders
        self._room = room
        self._backups = backups
        self._deployer = deployer
        self._hosting = hosting
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By the id of an engine: a suspended operator may come back, and give commands beside the one that leads."""

    async def reserve(self, spec: EngineSpec, sent: SentFacts) -> None:
        """Keep a place for an engine that comes. Idempotent. Raises Halt: EngineTaken, EngineThere."""
        held = self._folders.find(spec.ref)
        if held is None:
            await self._deployer.hold(spec, NO_SECRET, sent)
        elif not comes(held):
            raise Halt(Waiting("EngineThere", f"the pool holds the engine {spec.ref.id} already"))

    async def receive(self, ref: EngineRef, copy: Packed) -> None:
        """Lay a copy of the engine ready; it replaces an earlier one. Raises NotFound (no place is kept), Invalid, OSError."""
        self._coming(ref)
        async with held_archive(copy, self._folders.incoming, self._room) as archive, self._turn(ref):
            self._coming(ref)
            await asyncio.to_thread(self._stage, archive, ref, copy)

    async def blocks(self, ref: EngineRef) -> bytes:
        """Return what the old place must know of the copy that lies ready, `b""` for nothing. Raises NotFound, OSError."""
        async with self._turn(ref):
            self._coming(ref)
            return await asyncio.to_thread(self._backups.staging.earlier, ref)

    async def take(self, spec: EngineSpec, sent: SentFacts, token: str) -> None:
        """Open the engine with the copy of that token, and serve it from now on. Idempotent.

        Raises Halt: NotFound (no place is kept), MoveStale (the copy is another one).
        """
        async with self._turn(spec.ref):
            held = self._folders.find(spec.ref)
            if held is not None and not comes(held):
                return
            held = self._coming(spec.ref)
            taken, folder = self._backups.staging.take_copy, self._folders.folder(spec.ref.id)
            if token in ("", PREPARED) or not await asyncio.to_thread(taken, spec.ref, token, folder):
                raise Halt(Transient("MoveStale", "the copy in the pool is not that of the engine's last state"))
            await self._hosting.try_open(held)
            await self._deployer.hold(spec, NO_SECRET, sent)

    async def cancel(self, ref: EngineRef) -> None:
        """Give the place of an engine that does not come free. Idempotent. Raises a Waiting Halt (EngineThere) if it came."""
        async with self._turn(ref):
            held = self._folders.find(ref)
            if held is None:
                return
            if not comes(held):
                raise Halt(Waiting("EngineThere", f"the engine {ref.id} runs in this pool already"))
            await asyncio.to_thread(self._backups.staging.discard, ref.id)
            await self._deployer.undeploy(ref)

    async def leaving(self, ref: EngineRef) -> LeavingEngine:
        """Return an engine of this pool that leaves it. Raises NotFound, EngineTaken."""
        held = self._folders.find(ref)
        if held is None or held.awaits:
            raise NotFound(f"no engine with the id {ref.id} runs in this pool")
        folder = await asyncio.to_thread(self._folders.make, ref.id)
        return LeavingEngine(folder, self._folders.incoming, self._backups.key, self._database(ref, folder))

    async def free_forgotten(self, now: datetime) -> None:
        """Free the places of engines of which nothing was heard for a long time."""
        for id_ in self._folders.ids:
            held = self._folders.held(id_)
            if held is None or not comes(held) or now - held.created_at <= FORGOTTEN or id_ in self._turns:
                continue
            try:
                await self.cancel(held.ref)
            except Halt as halt:  # it is not the business of who asked for a place
                log.warning("the place of an engine that does not come cannot be given up", environment_id=id_, error=halt.told)

    def _database(self, ref: EngineRef, folder: Path) -> LeavingDatabase:
        """Return the database of an engine that leaves. folder: of the engine."""
        return LeavingFile(folder)

    def _turn(self, ref: EngineRef) -> AbstractAsyncContextManager[None]:
        lock = self._turns.get(ref.id)
        if lock is None:
            lock = self._turns[ref.id] = asyncio.Lock()
        return lock

    def _coming(self, ref: EngineRef) -> EngineRecord:
        held = self._folders.find(ref)
        if held is None or not comes(held):
            raise NotFound(f"no place is kept for an engine with the id {ref.id}")
        return held

    def _stage(self, archive: Path, ref: EngineRef, copy: Packed) -> None:
        checked = check(archive, Trust((copy.signer,)))
        self._remove_taken(ref)
        self._backups.staging.put(checked, ref, copy.token, as_file=True)

    def _remove_taken(self, ref: EngineRef) -> None:
        """Remove the files of a take that was interrupted: its copy is older than the one that comes."""
        taken = self._folders.folder(ref.id)
        if taken.exists():
            shutil.rmtree(taken)


def comes(record: EngineRecord) -> bool:
    """Return True for an engine that moves into the pool and is not served yet."""
    return record.awaits and record.spec.restoring == MOVING_MARK
