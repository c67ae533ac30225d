"""Requests for the rows of one engine, each in one transaction: its sender's rights first, then its work."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from typing import TypeVar

import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.data.exposure import Exposures, InstalledPackages
from tenantry.engine.data.live.streaming import Live
from tenantry.engine.data.quick_rows import KnownRights, QuickRows, admitted, not_installed
from tenantry.engine.data.signing import PreparedWork, ReadingWork, SmallWork, Work
from tenantry.engine.principal import RowCaller
from tenantry.engine.quota import EngineQuota
from tenantry.engine.sql.driver import AnswerMoved, ShortRead
from tenantry.engine.sql.short_reads import NotShort
from tenantry.engine.transactions import Transactions

T = TypeVar("T")
QUERY_S = 10.0
"""The time limit of the data API's work on one request."""
LARGE_S = 30.0
"""The same for a request with many rows."""


class RowAccess:
    """EngineRows. dialect: the database's; packages: those of the engine."""

    def __init__(
        self, transactions: Transactions, dialect: str, packages: InstalledPackages, quota: EngineQuota, live: Live
    ) -> None:
        self._transactions = transactions
        self._name = transactions.lane.name
        self._dialect = dialect
        self._exposures = Exposures(packages, dialect)
        self._quota = quota
        self.live = live
        self._known = KnownRights()
        """Those of reads in the event loop."""
        self._quick = QuickRows(transactions.quick_work(), self._exposures) if dialect == "postgresql" else None

    @property
    def reads_now(self) -> bool:
        """Return True if the database is a file, as EngineRows."""
        return self._quick is None

    def expect(self, packages: Collection[str]) -> None:
        """Take installed versions over from other engines of this process. packages: their SHA-256."""
        for sha256 in packages:
            self._exposures.expect(sha256)

    async def run(
        self, app: str, caller: RowCaller, work: Work[T], *, write: bool = False, grows: bool = False, large: bool = False
    ) -> T:
        """Return the result of `work`, as EngineRows."""

        def within(connection: sa.Connection) -> T:
            sha256, roles = admitted(asked, app, caller)
            exposure = self._exposures.of(sha256)
            with self._quota.growing(connection) if grows else nullcontext():
                return work(connection, exposure, roles)

        if not self._transactions.prepared:
            caller.roles_of(None)
            raise not_installed(app)
        asked = records.admission(self._dialect, app, caller.identity)
        done = await self._transactions.serve(within, LARGE_S if large else QUERY_S, write, alone=large, question=asked)
        if write:
            self.live.feed.wake()
        return done

    async def run_quick(self, app: str, caller: RowCaller, work: SmallWork[T], *, write: bool = False, grows: bool = False) -> T:
        """Return the result of `work`, as EngineRows."""
        measured = grows and self._quota.limits().database
        if self._quick is None or not self._transactions.prepared or measured:
            return await self.run(app, caller, work, write=write, grows=grows)
        try:
            done = await self._quick.run(app, caller, work, write=write)
        except NotShort:
            return await self.run(app, caller, work, write=write, grows=grows)
        if write:
            self.live.feed.wake()
        return done

    async def read_late(self, app: str, caller: RowCaller, work: PreparedWork[T]) -> T:
        """Return the result of `work`, as EngineRows."""
        if self._quick is None or not self._transactions.prepared:
            raise NotShort
        return await self._quick.run_prepared(app, caller, work, write=False)

    async def write_late(self, app: str, caller: RowCaller, work: PreparedWork[T]) -> T:
        """Return the result of `work`, as EngineRows."""
        if self._quick is None or not self._transactions.prepared or self._quota.limits().database:
            raise NotShort
        done = await self._quick.run_prepared(app, caller, work, write=True)
        self.live.feed.wake()
        return done

    def run_now(self, app: str, table: str, caller: RowCaller, work: ReadingWork[T], *, single: bool = False) -> T:
        """Return the result of `work`, as EngineRows."""
        if not self.reads_now or not self._transactions.prepared:
            raise NotShort
        # A list that needs a thread does not keep single rows of its table from being read here.
        about, whose = (self._name, app, table, single), (app, caller.identity)
        known = self._known.of(whose) if single else None
        asked = known or records.admission(self._dialect, *whose)

        def within(read: ShortRead) -> T:
            if read.joined is None:
                asked.answer = read.driver.execute(asked.query, asked.values).fetchone()
            sha256, roles = admitted(asked, app, caller)
            exposure = self._exposures.known(sha256)
            if exposure is None:
                raise NotShort
            return work(read, exposure, roles)

        if known is not None:
            try:
                return self._transactions.serve_now(within, about, known)
            except AnswerMoved:
                self._known.drop(whose)
                asked = records.admission(self._dialect, *whose)
            except BaseException:
                self._known.drop(whose)  # it may have been refused by old rights
                raise
        done = self._transactions.serve_now(within, about)
        if single and asked.answer is not None:
            self._known.keep(whose, asked)
        return done
