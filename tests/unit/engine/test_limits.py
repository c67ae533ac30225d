"""Limits of each connection to an engine's database, which bound a check that nobody weighed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tenantry.engine.database import Database, sqlite_driver
from tenantry.engine.sql.limits import LIMITS, LONGEST_PATTERN
from tenantry.engine.sql.server_session import SESSION
from tenantry.model.verdicts import Halt
from tests.scenario.postgres import database_url

WAYS = ("reading", "writing", "migrating", "outside")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "engine.db")
    yield made
    made.close()


def of(connection: sa.Connection) -> dict[int, int]:
    return {limit: sqlite_driver(connection).getlimit(limit) for limit in LIMITS}


@pytest.mark.parametrize("way", WAYS)
def test_each_connection_to_sqlite_is_limited(database: Database, way: str) -> None:
    with getattr(database, way)() as connection:
        assert of(connection) == LIMITS


def test_a_pattern_that_a_stored_check_makes_is_bounded(database: Database) -> None:
    with database.migrating() as connection:
        connection.exec_driver_sql("CREATE TABLE t (v, w, CHECK (v NOT LIKE '%' || w))")
    with database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (?, ?)", ("a", "b" * (LONGEST_PATTERN - 1)))
    with pytest.raises(Halt, match="LIKE or GLOB pattern too complex"), database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (?, ?)", ("a" * 1_000_000, "a" * 500_000 + "b"))


def test_the_deepest_expression_of_a_stored_check_is_read(database: Database) -> None:
    with database.migrating() as connection:
        connection.exec_driver_sql(f"CREATE TABLE t (v, CHECK ({'+'.join(['v'] * 499)} > 0))")
    database.close()
    with database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_each_session_of_a_server_is_limited(server: str, tmp_path: Path, way: str) -> None:
    database = Database(tmp_path / "engine.db", database_url(server))
    with getattr(database, way)() as connection:
        assert connection.exec_driver_sql("SELECT current_setting('work_mem')").scalar_one() == SESSION["work_mem"]
    database.close()
