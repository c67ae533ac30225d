"""The one reader of an engine's log of changes: it runs while somebody listens, and hands each change to all who do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

import sqlalchemy as sa
import structlog

from tenantry.engine.data.live import log, rendering
from tenantry.engine.data.live.listeners import Audience, EventBatch, Listener
from tenantry.engine.data.live.log import Epoch
from tenantry.engine.data.live.rendering import RowEvent
from tenantry.engine.data.live.triggers import KEPT, LIVE, TRIMMED, has_table
from tenantry.model.verdicts import Halt, Transient

T = TypeVar("T")
POLL_S = 1.0
"""Seconds after which changes of other processes are seen, at the latest."""
TOGETHER_S, LONGEST_S, OF_EACH_S = 0.02, 0.05, 0.0001
"""The pause between two reads, whose changes are sent together: at least, at most, and for each listener. The time that the
listeners take to be served is a part of it, but for the least."""
AT_ONCE = 50
"""Listeners who get events in one round of the event loop: requests of others come in between."""
HEARTBEAT_S = 15.0
"""Seconds between two signs of life to those who hear nothing else."""
MOST_CHANGES = 500
"""Changes of one read."""
MOST_BYTES = 1 << 20
"""Bytes of events of one read, unless the first event has more."""
FAILING_S = 30.0
"""Seconds without a successful read after which all listeners are closed."""
READ_S = 10.0
ENDED = "the table is another now: its app was installed or removed, or its database restored"
_log = structlog.get_logger(__name__)


class FeedDatabase(Protocol):
    """The engine's database, as the feed reads it."""

    async def serve(self, work: Callable[[sa.Connection], T], seconds: float, write: bool) -> T:
        """Return the result of work in one transaction."""


@dataclass(frozen=True)
class Gap:
    """Missing positions of the log. at: the first; waiting: the transactions under way that may fill it."""

    at: int
    waiting: frozenset[str]


@dataclass(frozen=True)
class Batch:
    """The outcome of one read. position: the last change that is settled; missed: the log has lost changes; more: read again."""

    position: int
    gap: Gap | None
    events: Mapping[str, Sequence[RowEvent]]
    ended: frozenset[str]
    missed: bool = False
    more: bool = False


class RowFeed:
    """One engine's changes. Belongs to one event loop."""

    def __init__(self, transactions: FeedDatabase) -> None:
        self._transactions = transactions
        self._audiences: dict[str, Audience] = {}
        self._position = 0
        self._gap: Gap | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    @property
    def position(self) -> int:
        """The position in the log up to which all listeners have got their events."""
        return self._position

    def wake(self) -> None:
        """Say that rows have changed."""
        if self._task is not None:
            self._changed.set()

    async def join(self, epoch: Epoch, listener: Listener) -> tuple[Audience, int]:
        """Add a listener. Return its table's audience and the position behind which it gets events. Raises Halt."""
        async with self._starting:
            if self._task is None or self._task.done():
                self._position = await self._transactions.serve(_start, READ_S, write=False)
                self._gap = None
                self._task = asyncio.create_task(self._run())
        audience = self._audiences.setdefault(epoch.id, Audience(epoch))
        listener.after = self._position
        audience.listeners.add(listener)
        return audience, self._position

    def leave(self, audience: Audience, listener: Listener) -> None:
        """Remove a listener. With the last one the reader ends."""
        audience.listeners.discard(listener)
        if not audience.listeners and self._audiences.get(audience.epoch.id) is audience:
            del self._audiences[audience.epoch.id]
        if not self._audiences and self._task is not None:
            self._task.cancel()
            self._task = None

    def end(self, reason: str) -> None:
        """Close all listeners."""
        for audience in self._audiences.values():
            audience.end(reason)

    async def since(self, epoch: Epoch, after: int, until: int) -> Sequence[RowEvent] | None:
        """Some of a table's events between two positions, in order; none when there are no more. None: the log has lost some.

        Raises Halt.
        """

        def work(connection: sa.Connection) -> Sequence[RowEvent] | None:
            if epoch.id not in log.epochs(connection) or log.last(connection) - after > KEPT:
                return None
            changes = log.read(connection, after, MOST_CHANGES, until, epoch.exposed.table.name)
            return rendering.events(connection, epoch, changes)

        return await self._transactions.serve(work, READ_S, write=False)

    async def _run(self) -> None:
        try:
            await self._read_on()
        except Exception:  # noqa: BLE001 - a bug ends the streams and not the engine
            _log.exception("changes.failed")
            self.end("an unexpected error; it is in the server's log")

    async def _read_on(self) -> None:
        read = beaten = time.monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._changed.wait()
            self._changed.clear()
            woken = time.monotonic()
            try:
                await self._hand_out(await self._transactions.serve(self._collect, READ_S, write=False))
                read = time.monotonic()
            except Halt as halt:
                if not isinstance(halt.verdict, Transient) or time.monotonic() - read > FAILING_S:
                    self.end(halt.told)
            if time.monotonic() - beaten > HEARTBEAT_S:
                beaten = time.monotonic()
                for audience in self._audiences.values():
                    audience.beat(self._position)
            listeners = sum(len(one.listeners) for one in self._audiences.values())
            pause = min(TOGETHER_S + listeners * OF_EACH_S, LONGEST_S)
            await asyncio.sleep(max(TOGETHER_S, pause - (time.monotonic() - woken)))

    async def _hand_out(self, batch: Batch) -> None:
        self._position, self._gap = batch.position, batch.gap
        wanting: list[tuple[Listener, EventBatch]] = []
        for id_, audience in self._audiences.items():
            if id_ in batch.ended:
                audience.end(ENDED)
            elif batch.missed:
                audience.end("more changes came than the log holds")
            elif events := batch.events.get(id_):
                chunk = EventBatch(events)
                wanting += [(listener, chunk) for listener in audience.listeners]
        if batch.more:
            self._changed.set()
        # Whoever joins from here on begins behind these events.
        for number, (listener, chunk) in enumerate(wanting, 1):
            listener.put(chunk)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _collect(self, connection: sa.Connection) -> Batch:
        """Read in a thread, while the loop changes nothing but the audiences."""
        audiences = list(self._audiences.values())
        living = log.epochs(connection) if has_table(connection, LIVE) else frozenset[str]()
        ended = frozenset(one.epoch.id for one in audiences) - living
        if not living:
            return Batch(self._position, None, {}, ended)
        last = log.last(connection)
        if last - self._position > KEPT or last < self._position:
            return Batch(last, None, {}, ended, missed=True)
        gap = self._gap
        if gap is not None:
            # Before the changes are read: a transaction that has ended has written all its changes.
            gap = Gap(gap.at, gap.waiting & log.writers(connection))
        changes = log.read(connection, self._position, MOST_CHANGES)
        dead = gap.at if gap is not None and not gap.waiting else None
        settled = changes[: log.passable(self._position, [one.seq for one in changes], dead)]
        if connection.dialect.name == "sqlite":
            settled = changes  # one writer at a time: what is missing was removed
        position = settled[-1].seq if settled else self._position
        if len(settled) == len(changes):
            gap = None
        elif gap is None or gap.at != position + 1:
            gap = Gap(position + 1, log.writers(connection))
        events, cut = _bounded(
            {one.id: _rendered(connection, one, settled) for one in (each.epoch for each in audiences) if one.id in living}
        )
        more = gap is not None or len(changes) == MOST_CHANGES or cut is not None
        return Batch(position if cut is None else cut, gap if cut is None else None, events, ended, more=more)


def _start(connection: sa.Connection) -> int:
    """The position that a reader begins behind: nothing under way is before it."""
    last = log.last(connection)
    return last if not log.writers(connection) else max(0, last - TRIMMED)


def _rendered(connection: sa.Connection, epoch: Epoch, changes: Sequence[log.Change]) -> list[RowEvent]:
    own = [one for one in changes if one.table == epoch.exposed.table.name and one.seq > epoch.start]
    return rendering.events(connection, epoch, own) if own else []


def _bounded(events: dict[str, list[RowEvent]]) -> tuple[dict[str, list[RowEvent]], int | None]:
    """As many events as fit into MOST_BYTES, and the position of the last one, None if all fit."""
    size, last = 0, 0
    for event in sorted((one for of in events.values() for one in of), key=lambda one: one.seq):
        size += len(event.data)
        if size > MOST_BYTES and last:
            return {id_: [one for one in of if one.seq <= last] for id_, of in events.items()}, last
        last = event.seq
    return events, None
