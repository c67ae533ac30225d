"""Reads in the event loop: bounded by SQLite itself, on connections that are open already, and without a trace on them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.engine.database import Database, Locked
from tenantry.engine.sql import short_reads
from tenantry.engine.sql.driver import AnswerMoved, ShortRead
from tenantry.engine.sql.limits import LARGEST_VALUE
from tenantry.engine.sql.server_session import Question
from tenantry.engine.sql.short_reads import LONG_S, PAUSE_S, SOON_S, NotShort, NotWritten, ShortReads
from tests.support.patience import DEADLINE_S
from tests.support.waiting import eventually

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of pauses. A read is ended by the thread's own time."""
    clock = Clock()
    monkeypatch.setattr("tenantry.engine.database.SHORT_READS", ShortReads(clock))
    return clock


@pytest.fixture
def database(tmp_path: Path, clock: Clock) -> Database:
    database = Database(tmp_path / "a.db")
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE t (n INTEGER, note TEXT)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 'one')")
    return database


def asking(query: str) -> Callable[[ShortRead], object]:
    return lambda read: read.driver.execute(query).fetchone()[0]


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer than a small read may."""
    monkeypatch.setattr(short_reads, "COMPUTED_S", 0.05)


def opened(database: Database) -> None:
    """Leave a connection behind, as a read in a thread does. The last one that closes has the file for a moment."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            with database.reading() as connection:
                connection.exec_driver_sql("SELECT 1")
            return
        except Locked:
            assert time.monotonic() < end


def is_closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018 - raises
    except sqlite3.ProgrammingError:
        return True
    return False


def read(database: Database, query: str = "SELECT n FROM t", tenant: str = "acme", about: str = "t") -> object:
    return database.short_read(tenant, about, asking(query))


def test_a_read_uses_a_connection_that_is_open(database: Database) -> None:
    assert read(database) == 1
    with pytest.raises(NotShort):
        read(Database(Path("nowhere.db")))


def test_nothing_is_opened_in_the_event_loop(database: Database) -> None:
    database.close()
    with pytest.raises(NotShort):
        read(database)


@pytest.mark.parametrize("query", [ENDLESS, "SELECT zeroblob(20000)", "SELECT group_concat(hex(zeroblob(9000))) FROM t"])
async def test_a_read_that_is_long_or_large_is_given_up_with_its_connection(database: Database, query: str) -> None:
    """SQLite's driver compiles a statement each time after it was ended between two rows."""
    used: list[sqlite3.Connection] = []

    def noted(read: ShortRead) -> object:
        used.append(read.driver)
        return read.driver.execute(query).fetchone()

    began = time.thread_time()
    with pytest.raises(NotShort):
        database.short_read("acme", "t", noted)
    assert time.thread_time() - began < 20 * short_reads.COMPUTED_S
    opened(database)
    database.short_read("other", "u", lambda read: used.append(read.driver))
    assert used[0] is not used[1]
    await eventually(lambda: is_closed(used[0]))


def test_a_short_read_leaves_no_trace(database: Database) -> None:
    read(database)
    with database.reading() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        assert not driver.in_transaction
        assert driver.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == LARGEST_VALUE
        counted = connection.exec_driver_sql(ENDLESS.replace("FROM n)", "FROM n LIMIT 1000000)")).scalar()
    assert counted == 1_000_000


def test_a_large_value_that_is_stored_is_not_read(database: Database) -> None:
    with database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (2, hex(zeroblob(20000)))")
    with pytest.raises(NotShort):
        read(database, "SELECT note FROM t WHERE n = 2")


def test_after_a_long_read_its_table_rests_longer_than_its_tenant(database: Database, clock: Clock) -> None:
    with pytest.raises(NotShort):
        read(database, ENDLESS)
    opened(database)
    with pytest.raises(NotShort):
        read(database, about="other")
    assert read(database, tenant="other") == 1
    clock.now += PAUSE_S
    assert read(database, about="other") == 1
    with pytest.raises(NotShort):
        read(database)
    clock.now += LONG_S
    assert read(database) == 1


def late(database: Database, clock: Clock) -> None:
    """A read for which the processor had no time."""

    def waits(read: ShortRead) -> object:
        clock.now += short_reads.LONGEST_S * 2
        return read.driver.execute(ENDLESS.replace("FROM n)", "FROM n LIMIT 300)")).fetchone()

    with pytest.raises(NotShort):
        database.short_read("acme", "t", waits)
    opened(database)


def test_one_read_that_was_late_makes_nothing_rest_and_a_second_one_its_tenant(database: Database, clock: Clock) -> None:
    for _ in range(3):
        late(database, clock)
        assert read(database) == 1
        clock.now += SOON_S
    late(database, clock)
    late(database, clock)
    with pytest.raises(NotShort):
        read(database)
    assert read(database, tenant="other") == 1
    clock.now += PAUSE_S
    assert read(database) == 1


def test_rows_that_sqlite_cannot_write_rest_and_others_do_not(database: Database, clock: Clock) -> None:
    def not_written(_: ShortRead) -> None:
        raise NotWritten

    with pytest.raises(NotWritten):
        database.short_read("acme", "t", not_written)
    with pytest.raises(NotShort):
        read(database)
    assert read(database, about="other") == 1
    clock.now += LONG_S
    assert read(database) == 1


def test_the_pauses_that_are_kept_are_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_reads, "_MOST_PAUSES", 3)
    reads = ShortReads(Clock())
    for number in range(10):
        reads._pause(number, 1.0)
    assert len(reads._pauses) == 3


def test_each_read_sees_what_was_committed_before_it(database: Database, tmp_path: Path) -> None:
    other = Database(tmp_path / "a.db")
    for number in range(5):
        with other.writing() as connection:
            connection.exec_driver_sql(f"UPDATE t SET n = {number}")
        assert read(database) == number


def test_a_refusal_ends_the_transaction(database: Database) -> None:
    def refuses(_: ShortRead) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        database.short_read("acme", "t", refuses)
    with database.reading() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection) and not driver.in_transaction


def joined(database: Database, answer: tuple[object, ...], query: str = "SELECT note, n FROM t WHERE n = ?") -> object:
    """The first row of a query that is asked with a question, whose answer was that one."""
    question = Question("SELECT max(n), ? FROM t", ("x",), answer)
    return database.short_read("acme", "t", lambda read: read.first(query, (1,)), question)


def test_a_question_and_a_row_are_one_statement(database: Database) -> None:
    statements: list[str] = []
    database.short_read("acme", "t", lambda read: read.driver.set_trace_callback(statements.append))
    statements.clear()
    assert joined(database, (1, "x")) == ("one", 1)
    assert len(statements) == 1
    assert joined(database, (1, "x"), "SELECT note, n FROM t WHERE n = 5 * ?") is None
    with pytest.raises(AnswerMoved):
        joined(database, (2, "x"))
    with pytest.raises(NotShort):
        joined(database, (1, "x"), f"SELECT * FROM ({ENDLESS}) WHERE ?")


def test_a_row_that_is_asked_by_itself_is_the_same(database: Database) -> None:
    query = "SELECT note, n FROM t WHERE n = ?"
    found = [database.short_read("acme", "t", lambda read, key=key: read.first(query, (key,))) for key in (1, 2)]  # type: ignore[misc]
    assert found == [("one", 1), None]


def test_a_file_that_took_the_place_of_another_is_not_read_by_an_old_connection(database: Database, tmp_path: Path) -> None:
    read(database)
    (tmp_path / "a.db").rename(tmp_path / "away.db")
    with pytest.raises(NotShort):
        read(database)
