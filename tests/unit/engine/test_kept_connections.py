"""Connections that are kept after use: never with another's settings, nor to a database that is another by now."""

from __future__ import annotations

import gc
import shutil
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tenantry.engine.database import Database
from tests.scenario.postgres import database_url
from tests.support.many_files import many_open_files
from tests.support.waiting import until


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str | None:
    return database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None


def connection_of(database: Database) -> object:
    """The driver's connection of a transaction."""
    with database.reading() as connection:
        return connection.connection.driver_connection


def value(database: Database, query: str) -> object:
    with database.reading() as connection:
        return connection.exec_driver_sql(query).scalar()


def test_one_transaction_after_the_other_uses_one_connection(tmp_path: Path, url: str | None) -> None:
    database = Database(tmp_path / "a.db", url)
    assert connection_of(database) is connection_of(database)
    database.close()


def test_a_process_with_a_thousand_sockets_keeps_connections(tmp_path: Path, url: str | None) -> None:
    database = Database(tmp_path / "a.db", url)
    with many_open_files():
        assert connection_of(database) is connection_of(database)
    database.close()


def test_two_databases_share_no_connection(tmp_path: Path) -> None:
    first, second = Database(tmp_path / "a.db"), Database(tmp_path / "b.db")
    assert connection_of(first) is not connection_of(second)
    assert connection_of(first) is not connection_of(second)


def test_a_database_that_was_closed_opens_anew(tmp_path: Path, url: str | None) -> None:
    database = Database(tmp_path / "a.db", url)
    before = connection_of(database)
    database.close()
    assert connection_of(database) is not before


def closers() -> Iterator[str]:
    """Innermost function of the thread that closes idle connections, where there is one."""
    for each in threading.enumerate():
        if each.name == "idle connections" and (frame := sys._current_frames().get(each.ident or 0)):
            yield frame.f_code.co_name


def test_the_wait_for_the_next_end_holds_no_connection(tmp_path: Path) -> None:
    until(lambda: not list(closers()))
    with closing(Database(tmp_path / "a.db")) as database, database.reading() as connection:
        pool = weakref.ref(connection.engine.pool)
        connection.close()
        until(lambda: list(closers()) == ["wait"])
    del connection, database
    gc.collect()
    assert pool() is None


def test_foreign_keys_hold_after_a_migration(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db")
    with database.migrating() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 0
    assert value(database, "PRAGMA foreign_keys") == 1


def test_a_file_that_took_the_place_of_another_is_read(tmp_path: Path) -> None:
    database, other = Database(tmp_path / "a.db"), Database(tmp_path / "b.db")
    for each, number in ((database, 1), (other, 2)):
        with each.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE t (n INTEGER)")
            connection.exec_driver_sql(f"INSERT INTO t VALUES ({number})")
    assert value(database, "SELECT n FROM t") == 1
    other.close()
    shutil.copy(tmp_path / "b.db", tmp_path / "new.db")
    for left in tmp_path.glob("a.db-*"):
        left.unlink()
    (tmp_path / "new.db").replace(tmp_path / "a.db")
    assert value(database, "SELECT n FROM t") == 2


@pytest.mark.slow
def test_a_connection_that_its_server_ended_is_not_used_again(tmp_path: Path, server: str) -> None:
    url = database_url(server)
    database = Database(tmp_path / "a.db", url)
    before = value(database, "SELECT pg_backend_pid()")
    with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 5000)", (before,))
    assert value(database, "SELECT pg_backend_pid()") != before


@pytest.mark.slow
def test_a_request_leaves_no_limit_behind(tmp_path: Path, server: str) -> None:
    database = Database(tmp_path / "a.db", database_url(server))
    with database.reading() as connection:
        connection.execute(sa.text("SELECT set_config('statement_timeout', '5', true)"))
    assert value(database, "SELECT current_setting('statement_timeout')") == "0"
