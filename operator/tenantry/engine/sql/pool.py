"""Connections of engines' databases that stay open for a short time after use: a request does not open its own.

A process keeps few of them, of all engines together, and none for longer than IDLE_S: a thousand idle engines cost nothing.
"""

from __future__ import annotations

import select
import sqlite3
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from sqlalchemy.pool import ConnectionPoolEntry, Pool

IDLE_S = 3.0
"""The time that a connection stays open without use."""
MOST_IDLE = 64
"""Idle connections of a process; the one that has waited longest closes for another."""
Seen = tuple[int, int, int] | None
Kept = tuple[ConnectionPoolEntry, Seen]
"""A connection, and the state of its file when it was used last."""


class _Idle:
    """The idle connections of a process, those that came last at the end. Safe between threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[ConnectionPoolEntry, tuple[KeptPool, Seen, float]] = OrderedDict()
        self._retired: list[ConnectionPoolEntry] = []
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closing = False

    def put(self, pool: KeptPool, record: ConnectionPoolEntry, seen: Seen) -> None:
        """Keep a connection. seen: the state of its file."""
        surplus = None
        with self._lock:
            self._kept[record] = pool, seen, time.monotonic() + IDLE_S
            if len(self._kept) > MOST_IDLE:
                surplus, _ = self._kept.popitem(last=False)
            self._close_in_time()
        if surplus is not None:
            surplus.close()

    def take(self, pool: KeptPool) -> Kept | None:
        """Return the pool's connection that was used last, None where there is none."""
        with self._lock:
            for record in reversed(self._kept):
                if self._kept[record][0] is pool:
                    return record, self._kept.pop(record)[1]
        return None

    def retire(self, record: ConnectionPoolEntry) -> None:
        """Close a connection soon, in a thread."""
        with self._lock:
            self._retired.append(record)
            self._close_in_time()
            self._changed.notify()

    def _close_in_time(self) -> None:
        if not self._closing:
            self._closing = True
            threading.Thread(target=self._close_late, name="idle connections", daemon=True).start()

    def _close_late(self) -> None:
        while self._close_next():
            pass

    def _close_next(self) -> bool:
        """Close the next connection at its time. False if there is none. No connection is held while it waits."""
        with self._changed:
            while not self._retired:
                if not self._kept:
                    self._closing = False
                    return False
                left = next(iter(self._kept.values()))[2] - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            record = self._retired.pop() if self._retired else self._kept.popitem(last=False)[0]
        record.close()
        return True


_IDLE = _Idle()


class KeptPool(Pool):
    """One engine's connections. Each is used by one thread at a time; the pool is safe between threads."""

    file: Path | None = None
    """The database's file, None for one on a server. A connection to a file that others changed or replaced is not used again."""
    _ended = False

    def recreate(self) -> KeptPool:
        """Return a new pool of the same database."""
        fresh = KeptPool(self._creator, _dispatch=self.dispatch, dialect=self._dialect)
        fresh.file = self.file
        return fresh

    def dispose(self) -> None:
        """Close the idle connections. Those in use close when they come back."""
        self._ended = True
        self.forget()

    def forget(self) -> None:
        """Close the idle connections, and go on."""
        while (kept := _IDLE.take(self)) is not None:
            kept[0].close()

    def status(self) -> str:
        return "KeptPool"

    def take_open(self) -> Kept | None:
        """Return an idle connection, whose driver alone is used until `put_back`. None if there is none."""
        while (kept := _IDLE.take(self)) is not None:
            record, seen = kept
            if seen == self._look() and _is_usable(record.dbapi_connection):
                return kept
            record.close()
        return None

    def open_new(self) -> ConnectionPoolEntry:
        """Return a connection that was opened now. Blocks. Raises the driver's errors, and those of the
        listeners of `connect`."""
        return self._create_connection()

    def put_back(self, record: ConnectionPoolEntry, seen: Seen) -> None:
        """Keep a connection again. seen: the state of its file, before or after its use."""
        if self._ended or record.dbapi_connection is None:
            record.close()
            return
        _IDLE.put(self, record, seen)
        if self._ended:  # in between
            self.dispose()

    def retire(self, record: ConnectionPoolEntry) -> None:
        """Use a connection no more. Does not block."""
        _IDLE.retire(record)

    def _do_get(self) -> ConnectionPoolEntry:
        kept = self.take_open()
        return self._create_connection() if kept is None else kept[0]

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        self.put_back(record, self._look())

    def _look(self) -> Seen:
        """Return the state of the file, None where there is none. Its journal holds what connections of this process write."""
        if self.file is None:
            return None
        try:
            found = self.file.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def _is_usable(connection: Any) -> bool:
    """Return False if a server has ended the connection or sent something: unasked, it sends nothing in good health."""
    if isinstance(connection, sqlite3.Connection):
        return True
    if connection.closed:
        return False
    looking = select.poll()  # select() takes no file from number 1024 on
    looking.register(connection.fileno(), select.POLLIN)
    return not looking.poll(0)
