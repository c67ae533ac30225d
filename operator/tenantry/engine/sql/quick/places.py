"""The connections of a server that the event loop uses, within the limits of an engine, a tenant and the process."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.pool import ConnectionPoolEntry

from tenantry.engine.database import Database
from tenantry.engine.sql.pool import KeptPool
from tenantry.engine.sql.server_session import is_pooled
from tenantry.engine.sql.short_reads import NotShort
from tenantry.model.verdicts import Halt
from tenantry.rest.fairness.lanes import Lane, Overloaded

if TYPE_CHECKING:
    from tenantry.engine.sql.quick.pipeline import PipelineConnection

OF_ENGINE, OF_TENANT, OF_PROCESS = 8, 16, 32
"""Connections in use by the event loop at once. More work of an engine waits; beyond the others it goes to threads."""
MOST_WAITING = 256
"""Requests of one engine that may wait for a connection; more are refused."""
_WIRE = "wire"
_IN_USE: Counter[str] = Counter()
"""Connections of the process in use, by tenant."""


@dataclass(frozen=True, eq=False)
class UsedConnection:
    """A connection in use. pool: its own; pooled: another session may serve each transaction."""

    pool: KeptPool
    record: ConnectionPoolEntry
    wire: PipelineConnection
    pooled: bool


class Places:
    """One engine's. Belongs to one event loop."""

    def __init__(self, database: Database, lane: Lane) -> None:
        self._database = database
        self._lane = lane
        self._used = 0
        self._waiting: deque[asyncio.Future[UsedConnection]] = deque()

    async def take(self) -> UsedConnection:
        """A connection for one piece of work, which `give` gives back. Raises NotShort where a thread should do the work, and
        Overloaded."""
        pool, dialect = self._database.server_pool()
        if self._used < OF_ENGINE and not self._waiting and self._may_grow():
            self._count(1)
            try:
                record = await self._idle_or_new(pool, (dialect.loaded_dbapi.Error, Halt))
                if record is not None:
                    return self._attached(pool, record)
            except BaseException:
                self._leave()
                raise
            self._leave()
        if not self._used:
            raise NotShort  # a thread tries as well, and gives the reason
        return await self._wait()

    def give(self, place: UsedConnection) -> None:
        """Let others use it, those of this engine first."""
        if place.wire.broken:
            place.wire.detach()
            place.record.close()
            self._leave()
            return
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(place)
                return
        place.wire.detach()
        place.pool.put_back(place.record, None)
        self._count(-1)

    async def _idle_or_new(self, pool: KeptPool, refusals: tuple[type[Exception], ...]) -> ConnectionPoolEntry | None:
        """An idle connection or a new one. None where there is neither, as the server refuses one."""
        kept = pool.take_open()
        if kept is None:
            try:
                return await self._opened(pool)
            except refusals:
                kept = pool.take_open()  # a full server has none, but others may have put theirs back
        return kept and kept[0]

    async def _opened(self, pool: KeptPool) -> ConnectionPoolEntry:
        """A new connection. If nobody waits for it any more, it is kept for others."""
        opening = self._lane.submit(pool.open_new, bulk=True)

        def keep(opened: Future[ConnectionPoolEntry]) -> None:
            if not opened.cancelled() and opened.exception() is None:
                pool.put_back(opened.result(), None)

        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(keep)
            raise

    async def _wait(self) -> UsedConnection:
        if len(self._waiting) >= MOST_WAITING:
            raise Overloaded(len(self._waiting))
        turn: asyncio.Future[UsedConnection] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give(turn.result())
            raise

    def _leave(self) -> None:
        """Give up a connection. Without any, those who wait go to threads."""
        self._count(-1)
        while self._waiting and not self._used:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(NotShort())

    def _count(self, change: int) -> None:
        self._used += change
        _IN_USE[self._lane.tenant] += change
        if not _IN_USE[self._lane.tenant]:
            del _IN_USE[self._lane.tenant]

    def _may_grow(self) -> bool:
        return _IN_USE[self._lane.tenant] < OF_TENANT and _IN_USE.total() < OF_PROCESS

    def _attached(self, pool: KeptPool, record: ConnectionPoolEntry) -> UsedConnection:
        from tenantry.engine.sql.quick.pipeline import ConnectionBroken, PipelineConnection

        wire = record.info.get(_WIRE)
        if wire is None:
            connection = record.driver_connection
            wire = record.info[_WIRE] = PipelineConnection(connection, prepares=connection.prepare_threshold is not None)  # type: ignore[union-attr,arg-type]
        try:
            wire.attach()
        except ConnectionBroken:
            record.close()
            raise NotShort from None
        return UsedConnection(pool, record, wire, is_pooled(record))
