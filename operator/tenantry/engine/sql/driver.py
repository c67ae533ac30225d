"""Statements by the driver's own cursor, within SQLAlchemy's transaction: its results take longer to make than a row to read."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError

from tenantry.engine.sql.quick.replay import Replay
from tenantry.engine.sql.server_session import Question
from tenantry.engine.sql.short_reads import NotShort


class AnswerMoved(Exception):  # noqa: N818 - the work is done again
    """The answer to a question is another than it was."""


Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class ShortRead:
    """A read transaction on SQLite that ends within a millisecond (short_reads.py). It is used by the event loop.

    joined: is asked with the only statement, and has an answer already, which may be old.
    """

    driver: sqlite3.Connection
    dialect: Dialect
    joined: Question | None = None

    def first(self, query: str, parameters: Sequence[Any]) -> Sequence[Any] | None:
        """Return the first row; it has a value that is not null. Raises AnswerMoved if that of `joined` is another by now."""
        if self.joined is None:
            found: Sequence[Any] | None = self.driver.execute(query, parameters).fetchone()
            return found
        asked, known = self.joined, self.joined.answer
        assert known is not None
        row = self.driver.execute(_joined(asked.query, query), (*asked.values, *parameters)).fetchone()
        if row[: len(known)] != known:
            raise AnswerMoved
        cells = row[len(known) :]
        return None if cells.count(None) == len(cells) else cells


@lru_cache(maxsize=256)
def _joined(question: str, query: str) -> str:
    return f"SELECT asked.*, found.* FROM ({question}) AS asked LEFT JOIN ({query}) AS found ON 1"  # noqa: S608 - parameters


Reading = sa.Connection | ShortRead | Replay
"""A transaction in which rows are read."""


def execute(connection: Reading, query: str, parameters: Parameters) -> Any:
    """Return a cursor of the driver with the result; the caller closes it. Raises DBAPIError, as SQLAlchemy does, and
    sqlite3.Error in a short read.

    A transaction begins, unless one has begun.
    """
    if isinstance(connection, ShortRead):
        return connection.driver.execute(query, parameters)
    if isinstance(connection, Replay):
        raise NotShort
    if not connection.in_transaction():
        connection.begin()
    return execute_now(connection, query, parameters)


def execute_now(connection: sa.Connection, query: str, parameters: Parameters = ()) -> Any:
    """The same in whatever transaction there is, or in none."""
    driver = connection.dialect.loaded_dbapi.Error
    cursor = connection.connection.cursor()
    try:
        cursor.execute(query, parameters)
    except driver as error:
        cursor.close()
        raise raised(query, error, connection.dialect) from error
    return cursor


def ask(connection: sa.Connection, question: Question) -> None:
    """Ask a question by itself. Raises DBAPIError."""
    with closing(execute(connection, question.query, question.values)) as cursor:
        question.answer = cursor.fetchone()


def raised(query: str, error: Exception, dialect: Dialect) -> DBAPIError:
    """An error of the driver as SQLAlchemy raises it."""
    driver = dialect.loaded_dbapi.Error
    found = DBAPIError.instance(query, None, error, driver, hide_parameters=True, dialect=dialect)
    assert isinstance(found, DBAPIError)
    return found
