"""A connection to an engine's PostgreSQL, for COPY: how values are spelled and read does not depend on the server's settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import ArgumentError, DBAPIError

from tenantry.engine.database import MIGRATION, halt_of, lock_name, unreached
from tenantry.engine.sql.alive import ALIVE
from tenantry.engine.sql.engines import parsed
from tenantry.engine.sql.server_session import SESSION, pin_session
from tenantry.model.verdicts import Invalid, Problem

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]
CONNECT_S = 10
_DRIVERS = ("postgresql", "postgresql+psycopg")


def is_postgresql(url: str | None) -> bool:
    """Return True for the URL of a PostgreSQL database, False for SQLite in the engine's folder. Raises Invalid for any
    other."""
    if url is None:
        return False
    try:
        known = parsed(url).drivername in _DRIVERS
    except (ArgumentError, ValueError):  # the latter for a port that is not a number
        known = False
    if not known:
        raise Invalid((Problem("database", "must be a URL that begins with postgresql://, or absent for SQLite in the folder"),))
    return True


@contextmanager
def session(url: str, *, named: bool = True) -> Iterator[Connection]:
    """The connection, outside of a transaction. Blocks. Raises Invalid, Halt. named: errors may name the server."""
    import psycopg

    plain = parsed(url).set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        with psycopg.connect(
            plain, autocommit=True, connect_timeout=CONNECT_S, client_encoding=SESSION["client_encoding"], **ALIVE
        ) as connection:
            pin_session(connection)
            yield connection
    except psycopg.Error as error:
        halt = halt_of(DBAPIError(None, None, error))
        raise (halt if named or error.sqlstate else unreached(error)) from error


def keep_migrations_out(connection: Connection) -> None:
    """Until this connection ends, installs wait: before they lock a table, so the data API goes on. See one_at_a_time."""
    connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (lock_name(MIGRATION),))
