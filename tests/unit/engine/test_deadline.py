"""A server is asked to cancel until the statement's block is left, and never after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any

import psycopg

from tenantry.engine.sql.deadline import Deadline
from tests.support.patience import BUSY
from tests.support.waiting import until


class Connection:
    """A connection, as `Deadline` uses SQLAlchemy's and the driver's. It says sqlite, so that no transaction is begun on it, and
    has no `interrupt`, so that a server is asked."""

    def __init__(self, cancel: Callable[[], None] = lambda: None) -> None:
        self.connection, self.driver_connection, self.dialect, self.name = self, self, self, "sqlite"
        self.asked = 0
        self.invalidated = False
        self._cancel = cancel

    def cancel_safe(self, timeout: float) -> None:
        self.asked += 1
        self._cancel()

    def invalidate(self) -> None:
        self.invalidated = True


def deadline() -> Deadline:
    return Deadline(time.monotonic() + 60)


def over(within: Deadline, connection: Any) -> Any:
    return within.over(connection)


def test_the_server_is_asked_again_until_the_block_is_left_and_by_one_thread() -> None:
    before, connection, within = set(enumerate_threads()), Connection(), deadline()

    def asking() -> list[Thread]:
        return [each for each in enumerate_threads() if each.name == "cancel" and each not in before]

    with over(within, connection):
        within.given_up = True
        for _ in range(100):
            within.interrupt()
        assert len(asking()) == 1
        until(lambda: connection.asked >= 3)
    asked = connection.asked
    until(lambda: asking() == [])
    within.interrupt()
    assert asking() == []
    assert connection.asked == asked
    assert connection.invalidated, "a pool would give it to another"


def test_a_request_that_fails_is_made_again() -> None:
    def refuse() -> None:
        raise psycopg.OperationalError("too many clients already")

    connection, within = Connection(refuse), deadline()
    with over(within, connection):
        within.given_up = True
        within.interrupt()
        until(lambda: connection.asked >= 2)


def test_the_block_ends_after_a_request_that_is_under_way_and_the_event_loop_waits_for_neither() -> None:
    asking, answer, left = Event(), Event(), Event()

    def hang() -> None:
        asking.set()
        assert answer.wait(30)

    connection, within = Connection(hang), deadline()

    def work() -> None:
        with over(within, connection):
            within.given_up = True
            within.interrupt()
            assert asking.wait(30)
        left.set()

    Thread(target=work, daemon=True).start()
    assert asking.wait(30)
    before = time.monotonic()
    within.interrupt()
    assert time.monotonic() - before < BUSY
    assert not left.wait(0.1), "the connection was let go while the server was asked to cancel"
    answer.set()
    assert left.wait(30)
    assert connection.asked == 1


def test_work_of_many_statements_is_ended_once_it_is_late() -> None:
    connection, within = Connection(), Deadline(time.monotonic() - 1)
    with over(within, connection):
        within.interrupt()
        until(lambda: connection.asked >= 2)
    assert connection.invalidated


def test_a_connection_that_nobody_left_is_asked_nothing() -> None:
    connection, within = Connection(), deadline()
    with over(within, connection):
        within.interrupt()
    assert (connection.asked, connection.invalidated) == (0, False)
