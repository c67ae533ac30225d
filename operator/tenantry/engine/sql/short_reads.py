"""Short reads of SQLite in the event loop: they take less time than a thread needs to begin.

A read that turns out to be long is given up within a millisecond, and is done again in a thread. SQLite itself ends it: it looks
at the clock while it works, and refuses values that are large. Nothing but a connection that is open already is used.
"""

from __future__ import annotations

import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from tenantry.engine.sql.pool import KeptPool
from tenantry.rest.fairness.long_steps import LARGE

T = TypeVar("T")
COMPUTED_S, LONGEST_S = 0.001, 0.005
"""Seconds on a processor, and by the clock, after which a read is given up."""
LARGEST_VALUE, LARGEST_PAGE = LARGE - 1, 64 << 10
"""Bytes of a value, and of a page that SQLite makes. A larger value would be a long step, which may have to wait."""
PAUSE_S, LONG_S = 0.02, 5.0
"""The time in which reads are not tried here: of a tenant, after one that was given up, and of a table, after a long one."""
SOON_S = 0.1
"""A tenant's read that was only late does not count unless another one was late that time before: the processor was busy."""
_STEPS = 250
"""Instructions of SQLite between two looks at the clock."""
_MOST_PAUSES = 1000


class NotShort(Exception):  # noqa: N818 - no failure: the read goes on in a thread
    """The read is not for the event loop."""


class NotWritten(NotShort):
    """SQLite cannot write the rows: each such read of them needs a thread."""


class ShortReads:
    """The short reads of an event loop. clock: monotonic seconds; spent: the thread's seconds on a processor."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, spent: Callable[[], float] = time.thread_time) -> None:
        self._clock, self._spent = clock, spent
        self._pauses: OrderedDict[Hashable, float] = OrderedDict()
        self._end, self._computed = 0.0, float("inf")

    def run(
        self, tenant: str, about: Hashable, pool: KeptPool, work: Callable[[sqlite3.Connection], T], *, single: bool = False
    ) -> T:
        """Return the result of `work`, in a transaction. about: the rows that are read; single: by one statement, which is a
        transaction by itself. Raises NotShort, and what `work` raises."""
        rows = (tenant, about)
        if self._pauses and self._clock() < max(self._pauses.get(tenant, 0.0), self._pauses.get(rows, 0.0)):
            raise NotShort
        kept = pool.take_open()
        if kept is None:
            raise NotShort
        record, seen = kept
        self._end, self._computed = self._clock() + LONGEST_S, float("inf")
        failed = False
        try:
            return self._within(cast(sqlite3.Connection, record.dbapi_connection), work, single)
        except NotWritten:
            self._pause(rows, LONG_S)
            raise
        except sqlite3.Error as error:
            failed = True
            computed = self._spent() > self._computed
            if computed or self._late_again(tenant):
                self._pause(tenant, PAUSE_S)
            if computed or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_TOOBIG:
                self._pause(rows, LONG_S)
            raise NotShort from error
        finally:
            if failed:  # a statement that was ended between two rows counts as used for ever: the driver compiles it each time
                pool.retire(record)
            else:
                pool.put_back(record, seen)

    def _within(self, driver: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], single: bool) -> T:
        largest = driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        driver.set_progress_handler(self._is_long, _STEPS)
        try:
            if not single:
                driver.execute("BEGIN")
            return work(driver)
        finally:
            driver.set_progress_handler(None, 0)
            driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, largest)
            if not single:
                driver.rollback()

    def _is_long(self) -> bool:
        """Return True if the read has taken its time. Asked by SQLite, which most reads leave no time for."""
        spent = self._spent()
        if self._computed == float("inf"):  # the thread's time is asked for where it matters: that is a call of the system
            self._computed = spent + COMPUTED_S
        return spent > self._computed or self._clock() > self._end

    def _late_again(self, tenant: str) -> bool:
        """Note that a read of the tenant was late. Return True if another one was a short time before."""
        late = (tenant, "late")
        again = self._clock() < self._pauses.get(late, 0.0)
        self._pause(late, SOON_S)
        return again

    def _pause(self, about: Hashable, seconds: float) -> None:
        self._pauses[about] = self._clock() + seconds
        self._pauses.move_to_end(about)
        if len(self._pauses) > _MOST_PAUSES:
            self._pauses.popitem(last=False)


SHORT_READS = ShortReads()
