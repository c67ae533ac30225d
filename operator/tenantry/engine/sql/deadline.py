"""The time limit of a transaction, and the way to end one that exceeds it or that nobody waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any

import sqlalchemy as sa

from tenantry.engine.sql.driver import ask
from tenantry.engine.sql.server_session import Question, begin_limited

AGAIN_S = 0.05
"""The pause between interrupts of a statement after its deadline: between two statements there is nothing to interrupt."""
_LONGEST_PAUSE_S = 0.5
"""The longest pause between requests to a server to end a statement. It doubles from AGAIN_S on."""
_LATE_S = 0.5
"""The time after the deadline from which a server is asked to end work. It ends a single statement in time by itself, but each
statement has the whole time again."""
_CANCEL_S = 5.0
"""The time limit of one such request."""


class Deadline:
    """The deadline of a transaction, and the way to end it.

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
    def over(self, connection: sa.Connection, question: Question | None = None) -> Iterator[None]:
        """The statements of the block are those that can be interrupted. question: asked before, with the transaction's begin.

        No request to cancel is under way when it ends. A server or a proxy may act on one later still, so a connection for
        which one was sent goes back to no pool.
        """
        with self._held:
            self._connection = connection.connection.driver_connection
        try:
            if self.given_up:
                raise asyncio.CancelledError
            if connection.dialect.name != "sqlite":
                begin_limited(connection, max(0.001, self.end - time.monotonic()), question)
            elif question is not None:
                ask(connection, question)
            yield
        finally:
            with self._held:
                self._connection = None
            self._left.set()
            with self._in_flight:
                if self._asked:
                    connection.invalidate()

    def interrupt(self) -> None:
        """End the statement that runs, if one does. Does not wait for it."""
        with self._held:
            connection = self._connection
            if hasattr(connection, "interrupt"):
                connection.interrupt()
            elif connection is not None and self._is_over and not self._asking:
                # To ask a server takes a connection of its own, so another thread does.
                self._asking = True
                Thread(target=self._ask, name="cancel", daemon=True).start()

    @property
    def _is_over(self) -> bool:
        return self.given_up or time.monotonic() >= self.end + _LATE_S

    def _ask(self) -> None:
        """Ask the server to cancel until the block is left: it ignores a request while no statement runs."""
        pause = AGAIN_S
        while self._cancel():
            self._left.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _cancel(self) -> bool:
        """Ask the server once. False when the block was left."""
        import psycopg

        with self._in_flight:
            with self._held:
                connection = self._connection
            if connection is None:
                return False
            self._asked = True
            with suppress(psycopg.Error, OSError):  # such as of a server without a free connection: it is asked again
                connection.cancel_safe(timeout=_CANCEL_S)
            return True


class Interrupts:
    """Interrupts a call from its deadline on, again and again, until it ends.

    A timer that has ended holds nothing: what a request leaves is freed at once, without the garbage collector.
    """

    def __init__(self, deadline: Deadline, call: Future[Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline, self._call = deadline, call
        self._timer = self._loop.call_later(max(0.0, deadline.end - time.monotonic()), self._interrupt)

    def begin(self) -> None:
        """Interrupt it now: nobody waits for its result."""
        self.end()
        self._interrupt()

    def end(self) -> None:
        """Interrupt it no more."""
        self._timer.cancel()

    def _interrupt(self) -> None:
        if not self._call.done():
            self._deadline.interrupt()
            self._timer = self._loop.call_later(AGAIN_S, self._interrupt)
