"""Transactions of an engine's database from its lane: each ends by its deadline, and a lock is not waited for in a thread."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tenantry.engine import records
from tenantry.engine.database import Database, Locked
from tenantry.engine.opening.first_look import FirstLook, first_question, seen
from tenantry.engine.opening.ownership import Ownership
from tenantry.engine.sql.deadline import Deadline, Interrupts
from tenantry.engine.sql.driver import ShortRead, ask
from tenantry.engine.sql.group_commit import GroupCommit
from tenantry.engine.sql.quick.work import QuickWork
from tenantry.engine.sql.server_session import Question
from tenantry.engine.sql.short_reads import NotShort
from tenantry.rest.fairness.lanes import Lane

T = TypeVar("T")
WRITE_S = 30.0
"""The time limit of the engine's own work on its records, including the wait for a lock."""


@dataclass(frozen=True)
class LockPolicy:
    """The way to wait for a lock: pauses between two tries, which double, and the time after which no other try begins."""

    first_s: float = 0.05
    longest_s: float = 0.5
    most_s: float = float("inf")


FOR_ROWS = LockPolicy()
FOR_TABLES = LockPolicy(first_s=1.0, longest_s=8.0, most_s=300.0)
"""An install lets others work between two tries. Its caller, who waits for 10 minutes, gets the reason in time."""


class Transactions:
    """prepared: is there a database with the engine's tables?"""

    def __init__(self, database: Database, lane: Lane, ownership: Ownership) -> None:
        self._database = database
        self._ownership = ownership
        self.lane = lane
        self.prepared = False
        self._groups = GroupCommit(database, lane)

    def quick_work(self) -> QuickWork:
        """Work on a server without a thread."""
        return QuickWork(self._database, self.lane)

    async def read(self, query: Callable[[sa.Connection], T], absent: Callable[[], T], seconds: float = WRITE_S) -> T:
        """Return the result of the query; `absent` makes the answer while there is no database."""

        def within(deadline: Deadline) -> T:
            if not self.prepared:
                return absent()
            with self._database.reading() as connection, deadline.over(connection):
                return query(connection)

        return await self.run(within, seconds)

    async def write(self, change: Callable[[sa.Connection], T]) -> T:
        """Return the result of the change, in one transaction; the engine's tables are created before the first."""

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

    async def open_as_left(self, whole: Callable[[FirstLook], bool]) -> bool:
        """Open the database by one read. Return False, and open nothing, unless it is as its engine left it.

        whole: looks at the folder, in a thread. Raises Overloaded, Halt for a database that cannot be read.
        """
        question = first_question("postgresql" if self._database.on_server else "sqlite")
        if self._database.on_server:
            self.prepared = await self._looked_at_server(question, whole)
        else:
            self.prepared = await self.run(lambda deadline: self._looked_at_file(question, whole, deadline), WRITE_S)
        return self.prepared

    async def _looked_at_server(self, question: Question, whole: Callable[[FirstLook], bool]) -> bool:
        try:
            answer = await self.quick_work().ask(question)
        except NotShort:
            return False  # who opens it in the other way gets the reason
        return await self.lane.run(lambda: whole(seen(answer)))

    def _looked_at_file(self, question: Question, whole: Callable[[FirstLook], bool], deadline: Deadline) -> bool:
        if not self._database.is_marked:
            return False
        with self._database.reading() as connection, deadline.over(connection):
            try:
                ask(connection, question)
            except DBAPIError as error:
                if getattr(error.orig, "sqlite_errorcode", 0) != sqlite3.SQLITE_ERROR:
                    raise
                return False  # a table is missing
        return question.answer is not None and whole(seen(question.answer))

    async def open_unchanged(self) -> None:
        """Take the database as it is, for reads. Raises Halt: DatabaseTaken."""

        def within(deadline: Deadline) -> None:
            with self._database.reading() as connection, deadline.over(connection):
                self._ownership.check(connection)
            self.prepared = True

        await self.run(within, WRITE_S)

    async def serve(
        self,
        work: Callable[[sa.Connection], T],
        seconds: float,
        write: bool,
        *,
        alone: bool = False,
        question: Question | None = None,
    ) -> T:
        """Return the result of one request's work on rows, in one transaction. On SQLite writers commit together.

        alone: large work, which would let the others of its group wait. question: asked at the beginning.
        """

        def within(deadline: Deadline) -> T:
            with (
                self._database.writing() if write else self._database.reading() as connection,
                deadline.over(connection, question),
            ):
                return work(connection)

        if write and not self._database.on_server:
            return await self._groups.write(work, seconds, alone=alone, question=question)
        return await self.run(within, seconds, bulk=True)

    def serve_now(self, work: Callable[[ShortRead], T], about: Hashable, joined: Question | None = None) -> T:
        """Return the result of one request's read of rows, in the event loop. about: the rows; joined: is asked with its only
        statement. Raises NotShort, and what `work` raises."""
        return self._database.short_read(self.lane.tenant, about, work, joined)

    async def run(
        self, work: Callable[[Deadline], T], seconds: float, *, bulk: bool = False, waiting: LockPolicy = FOR_ROWS
    ) -> T:
        """Return the result of `work`, which is repeated while a lock is held. Raises Locked after that time, Invalid, Halt.

        A statement that exceeds that time, or whose caller leaves, is interrupted.
        """
        began, pause = time.monotonic(), waiting.first_s
        end, last = began + seconds, began + min(seconds, waiting.most_s)
        while True:
            deadline = Deadline(end)
            try:
                return await self._within(deadline, work, bulk)
            except Locked:
                if time.monotonic() + pause > last:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, waiting.longest_s)

    async def _within(self, deadline: Deadline, work: Callable[[Deadline], T], bulk: bool) -> T:
        future = self.lane.submit(lambda: work(deadline), bulk=bulk)
        interrupts = Interrupts(deadline, future)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            deadline.given_up = True
            interrupts.begin()
            raise
        finally:
            if future.done():
                interrupts.end()
