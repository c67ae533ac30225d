"""Statements by the driver's own cursor are in the transaction, and fail as SQLAlchemy's do."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError

from tenantry.engine.database import Database
from tenantry.engine.sql.driver import execute


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(tmp_path / "engine.db")
    with made.writing() as connection:
        connection.execute(sa.text("CREATE TABLE rights (id INTEGER PRIMARY KEY, role TEXT NOT NULL)"))
        connection.execute(sa.text("INSERT INTO rights VALUES (1, 'editor')"))
    return made


def role(connection: sa.Connection) -> str:
    with closing(execute(connection, "SELECT role FROM rights WHERE id = ?", (1,))) as cursor:
        return str(cursor.fetchone()[0])


def test_what_is_read_within_a_transaction_is_of_one_moment_and_the_next_sees_the_change(database: Database) -> None:
    with database.reading() as connection:
        assert role(connection) == "editor"
        with database.writing() as other:
            execute(other, "UPDATE rights SET role = 'none'", ()).close()
        assert role(connection) == "editor"
    with database.reading() as connection:
        assert role(connection) == "none"


def test_a_write_that_fails_leaves_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError), database.writing() as connection:
        execute(connection, "UPDATE rights SET role = 'none'", ()).close()
        raise RuntimeError
    with database.reading() as connection:
        assert role(connection) == "editor"


def test_a_refusal_of_the_database_is_sqlalchemys_error(database: Database) -> None:
    failures: list[Exception] = []
    with database.reading() as connection:
        for query in ("SELECT * FROM nothing", "INSERT INTO rights VALUES (2, NULL)"):
            try:
                execute(connection, query, ())
            except (OperationalError, IntegrityError) as error:
                failures.append(error)
    assert [type(each) for each in failures] == [OperationalError, IntegrityError]
    assert "NOT NULL constraint failed" in str(failures[1].orig)  # type: ignore[attr-defined]
