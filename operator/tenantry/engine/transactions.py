"""Transactions of an engine's database from its lane: each ends by its deadline, and a lock is not waited for in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.database import Database, Locked, limit_time
from tenantry.engine.lanes import Lane
from tenantry.engine.ownership import Ownership

T = TypeVar("T")
WRITE_S = 30.0
"""How long the engine's own work on its records may take, waiting for a lock included."""
_AGAIN_S = 0.05
"""How often a statement that goes on after its deadline is interrupted again, and a lock is asked for at first."""
_PAUSE_S = 0.5
_CANCEL_S = 5.0
"""How long one request to a server may take to cancel a statement."""


class Transactions:
    """prepared: is there a database with the engine's tables?"""

    def __init__(self, database: Database, lane: Lane, ownership: Ownership) -> None:
        self._database = database
        self._ownership = ownership
        self.lane = lane
        self.prepared = False

    async def read(self, query: Callable[[sa.Connection], T], absent: Callable[[], T], seconds: float = WRITE_S) -> T:
        """What the query finds; `absent` makes the answer while there is no database."""

        def within(deadline: Deadline) -> T:
            if not self.prepared:
                return absent()
            with self._database.reading() as connection, deadline.over(connection):
                return query(connection)

        return await self.run(within, seconds)

    async def write(self, change: Callable[[sa.Connection], T]) -> T:
        """What the change returns, in one transaction; the engine's tables are made before the first."""

        def within(deadline: Deadline) -> T:
            with self._database.writing() as connection, deadline.over(connection):
                if self.prepared:
                    records.prepare(connection)
                else:
                    own, server = self._ownership.claim(connection), connection.dialect.name != "sqlite"
                result = change(connection)
            if not self.prepared:
                self._ownership.claimed(own, server)
                self.prepared = True
            return result

        return await self.run(within, WRITE_S)

    async def serve(self, work: Callable[[sa.Connection], T], seconds: float, write: bool) -> T:
        """What the work of one request for rows returns, in one transaction."""

        def within(deadline: Deadline) -> T:
            with self._database.writing() if write else self._database.reading() as connection, deadline.over(connection):
                return work(connection)

        return await self.run(within, seconds, bulk=True)

    async def run(self, work: Callable[[Deadline], T], seconds: float, *, bulk: bool = False) -> T:
        """What `work` returns. It is made again while a lock is held. Raises Locked after that time, Invalid, Halt.

        A statement of it that goes on after that time, or whose caller leaves, is interrupted.
        """
        end, pause = time.monotonic() + seconds, _AGAIN_S
        while True:
            deadline = Deadline(end)
            try:
                return await self._within(deadline, work, bulk)
            except Locked:
                if time.monotonic() + pause > end:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_S)

    async def _within(self, deadline: Deadline, work: Callable[[Deadline], T], bulk: bool) -> T:
        loop = asyncio.get_running_loop()
        future = self.lane.submit(lambda: work(deadline), bulk=bulk)
        timer: asyncio.TimerHandle

        def interrupt() -> None:
            nonlocal timer
            if not future.done():
                # Again and again: between two statements there is nothing to interrupt.
                deadline.interrupt()
                timer = loop.call_later(_AGAIN_S, interrupt)

        timer = loop.call_later(max(0.0, deadline.end - time.monotonic()), interrupt)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            timer.cancel()
            deadline.given_up = True
            interrupt()
            raise
        finally:
            if future.done():
                timer.cancel()


class Deadline:
    """When the work of a transaction ends, and the way to end it.

    end: by the monotonic clock. given_up: nobody waits for the result any more.
    """

    def __init__(self, end: float) -> None:
        self.end = end
        self.given_up = False
        self._connection: Any = None
        self._asking = False
        self._asked = False
        self._left = Event()
        self._held = Lock()  # of the fields above; never while a server is waited for, because the event loop takes it
        self._in_flight = Lock()  # of a request to cancel

    @contextmanager
    def over(self, connection: sa.Connection) -> Iterator[None]:
        """The statements of the block are those that can be interrupted.

        No request to cancel is under way when it ends. A server or a proxy may act on one later still, so a connection for
        which one was sent goes back to no pool.
        """
        with self._held:
            self._connection = connection.connection.driver_connection
        try:
            if self.given_up:
                raise asyncio.CancelledError
            limit_time(connection, max(0.001, self.end - time.monotonic()))
            yield
        finally:
            with self._held:
                self._connection = None
            self._left.set()
            with self._in_flight:
                if self._asked and not connection.invalidated:
                    connection.detach()

    def interrupt(self) -> None:
        """End the statement that runs, if one does. Does not wait for it."""
        with self._held:
            connection = self._connection
            if hasattr(connection, "interrupt"):
                connection.interrupt()
            elif connection is not None and self.given_up and not self._asking:
                # The server ends late statements by itself. To ask it takes a connection of its own, so another thread does.
                self._asking = True
                Thread(target=self._ask, name="cancel", daemon=True).start()

    def _ask(self) -> None:
        """Ask the server to cancel until the block is left: it ignores a request while no statement runs."""
        pause = _AGAIN_S
        while self._cancel():
            self._left.wait(pause)
            pause = min(2 * pause, _PAUSE_S)

    def _cancel(self) -> bool:
        """Ask the server once. False when the block was left."""
        with self._in_flight:
            with self._held:
                connection = self._connection
            if connection is None:
                return False
            self._asked = True
            with suppress(psycopg.Error, OSError):  # such as of a server without a free connection: it is asked again
                connection.cancel_safe(timeout=_CANCEL_S)
            return True
