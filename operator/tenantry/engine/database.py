"""The engine's database: SQLite in its folder, or PostgreSQL by URL. All differences of dialect are in here.

No connection is kept while nothing runs: a thousand idle engines cost a thousand closed files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tenantry.model.verdicts import Halt, Invalid, Problem, Transient

BUSY_S = 30


class Database:
    """Transactions on one database. Blocks; used from worker threads."""

    def __init__(self, file: Path, url: str | None = None) -> None:
        self._file = None if url else file
        self._url = url or f"sqlite:///{file}"
        self._engine: Engine | None = None

    @property
    def exists(self) -> bool:
        """Has a SQLite database been made? A server's always has."""
        return self._file is None or self._file.exists()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view."""
        with self._connected() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, committed at the end unless the block raises."""
        with self._connected() as connection, connection.execution_options(tenantry_write=True).begin():
            yield connection

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """One transaction in which tables may be rebuilt. SQLite checks foreign keys at its end. Raises Invalid."""
        with self._connected() as connection:
            if self._file is not None:
                # Inside of a transaction this pragma does nothing, and what it switches off deletes rows of dropped parents.
                _driver(connection).execute("PRAGMA foreign_keys=OFF")
            with connection.execution_options(tenantry_write=True).begin():
                yield connection
                if self._file is not None:
                    _check_foreign_keys(connection)

    def backup(self, out: Path) -> None:
        """A consistent copy while others write. SQLite only."""
        with self._connected() as connection, sqlite3.connect(out) as target:
            _driver(connection).backup(target)

    def close(self) -> None:
        """Lets everything go."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        if self._engine is None:
            self._engine = _engine(self._url)
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise halt_of(error) from error


def _engine(url: str) -> Engine:
    engine = create_engine(url, poolclass=NullPool)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _record: Any) -> None:
    # The driver's own transactions cannot hold DDL; ours begin by the event below.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={BUSY_S * 1000}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("tenantry_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _driver(connection: Connection) -> sqlite3.Connection:
    driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    return driver


def _check_foreign_keys(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        table, row, parent, _ = broken[0]
        raise Invalid(
            (Problem(f"tables.{table}", f"{len(broken)} rows reference rows of {parent} that are not there (first: row {row})"),)
        )


def halt_of(error: DBAPIError) -> Halt:
    """What a database error means: the package's or the rows' fault, or a passing one."""
    text = str(error.orig)
    if isinstance(error.orig, sqlite3.OperationalError) and ("locked" in text or "disk" in text or "I/O" in text):
        return Halt(Transient("DatabaseUnavailable", text))
    if error.connection_invalidated:
        return Halt(Transient("DatabaseUnavailable", text))
    return Invalid((Problem("database", text),))
