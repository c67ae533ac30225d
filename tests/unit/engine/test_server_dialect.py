"""The dialect of a database on a server: what SQLAlchemy keeps of one for the whole process."""

from __future__ import annotations

import gc
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tenantry.engine.database import Database
from tests.scenario.postgres import database_url


def looked_at(url: str) -> weakref.ReferenceType[Any]:
    """Look at the tables of a database, and close it. Return its dialect."""
    with closing(Database(Path(), url)) as database, database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS one (id integer PRIMARY KEY REFERENCES one (id), CHECK (id > 0))")
        found = sa.inspect(connection)
        assert found.get_table_names() == ["one"] and found.has_table("one") and not found.has_table("two")
        assert [each["name"] for each in found.get_columns("one")] == ["id"]
        assert len(found.get_foreign_keys("one")) == len(found.get_check_constraints("one")) == 1
        assert found.get_table_comment("one") == {"text": None}
        return weakref.ref(connection.dialect)


def test_a_database_that_was_closed_leaves_no_dialect(server: str) -> None:
    url = database_url(server)
    looked_at(url)  # its questions may be those of all others
    left = [looked_at(url) for _ in range(3)]
    gc.collect()
    assert [each() for each in left] == [None] * 3
