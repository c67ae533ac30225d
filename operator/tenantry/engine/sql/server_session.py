"""Sessions of a PostgreSQL server: their settings, their limits, and few round trips; also behind a pooler.

A pooler gives each transaction another session. Behind one, nothing is set for longer than a transaction.
The driver is imported by functions: an engine on SQLite needs none of its 9 MiB.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from tenantry.engine.sql.alive import ALIVE
from tenantry.model.verdicts import Invalid, Problem

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 10
"""Seconds for a server to accept a connection, unless its URL says otherwise."""
PREPARED_AFTER = 3
"""Executions of a statement on one connection after which the server keeps its plan."""
STALE_PLAN = "cached plan must not change result type"
"""The message of a server whose table has changed since a statement was prepared."""
_SESSION = "session"

SESSION = {
    "client_encoding": "UTF8",
    "bytea_output": "hex",
    "DateStyle": "ISO, MDY",
    "extra_float_digits": "3",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronous_commit": "on",
    "TimeZone": "UTC",
    "work_mem": "4MB",
}
"""Settings that a PostgreSQL session must not take from the server, the database or the role: spelling of values, and
limits."""
_PINS = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SESSION.items())
_LOOK = f"""
    SELECT current_setting('server_encoding'), pg_backend_pid(), current_setting('server_version_num'), current_schema(),
        current_setting('transaction_isolation'), CASE WHEN pg_backend_pid() = {{pid}} THEN concat({_PINS}) END
"""
"""Sets SESSION where the server itself answers: a pooler has a number of its own."""
PIN_LOCALLY = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', true)" for name, value in SESSION.items() if name != "client_encoding"
)
"""Sets SESSION for a transaction. The client's own settings a pooler restores by itself; the limits are set with each
transaction."""

Reach = Callable[[str, int], str]
"""The address of a host and port that may be connected to. Blocks. Raises Halt."""


@dataclass
class Question:
    """A query that is sent with the beginning of a transaction, in the same round trip. answer: its first row."""

    query: str
    values: tuple[Any, ...]
    answer: Sequence[Any] | None = None


class ServerSession(NamedTuple):
    """A session of a server, as it was opened. pooled: a pooler gives each transaction another one. version: of the server;
    schema: of names without one, None for none; isolation: the level of its transactions."""

    pooled: bool
    version: tuple[int, ...]
    schema: str | None
    isolation: str


def pin_session(connection: psycopg.Connection[Any]) -> ServerSession:
    """Set SESSION, unless a pooler stands between, in one round trip and no transaction. Raises Invalid where the database cannot
    hold every text, psycopg.Error."""
    import psycopg
    from psycopg.pq import ExecStatus

    pid = connection.info.backend_pid
    result = connection.pgconn.exec_(_LOOK.format(pid=pid).encode())
    if result.status != ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(result, connection.info.encoding)
    cells = [result.get_value(0, place) for place in range(result.nfields)]
    encoding, answered, number, schema, isolation, _ = (None if cell is None else cell.decode() for cell in cells)
    if encoding != "UTF8":
        raise Invalid((Problem("database", f"has the encoding {encoding}: create it with ENCODING 'UTF8'"),))
    assert number is not None and isolation is not None
    version = divmod(int(number), 10_000)  # of PostgreSQL 10 and later
    return ServerSession(answered != str(pid), version, schema, isolation.upper())


def connected(connection: psycopg.Connection[Any], record: Any) -> None:
    """Prepare a new connection of a pool. Raises Invalid."""
    try:
        session = record.record_info[_SESSION] = pin_session(connection)
    except Invalid:
        connection.close()
        raise
    if connection.prepare_threshold is None and not session.pooled:
        connection.prepare_threshold = PREPARED_AFTER


def session_of(connection: Connection | ConnectionPoolEntry) -> ServerSession:
    """Return the session of a connection to a server."""
    info = (connection.connection if isinstance(connection, Connection) else connection).record_info
    assert info is not None
    session: ServerSession = info[_SESSION]
    return session


def is_pooled(connection: Connection | ConnectionPoolEntry) -> bool:
    """Return True if each transaction of the connection may have another session."""
    return session_of(connection).pooled


def pin_transaction(connection: Connection) -> None:
    """Set SESSION for a transaction that begins on a pooler's session."""
    if is_pooled(connection):
        connection.exec_driver_sql(PIN_LOCALLY)


def connect_options(reach: Reach | None, options: dict[str, Any]) -> None:
    """Complete the options of a new connection: it goes to the address that was checked, which is asked for anew each time."""
    for name, value in {"connect_timeout": CONNECT_S, **ALIVE}.items():
        options.setdefault(name, value)
    # In SQL_ASCII, which a session takes from such a database, the driver reads bytes in place of texts.
    options["client_encoding"] = SESSION["client_encoding"]
    # Statements are prepared once it is known that no pooler stands between, or if the URL says that the pooler can.
    wanted = options.pop("prepare_threshold", None)
    if wanted is not None and not str(wanted).isdecimal():
        raise Invalid((Problem("database", "prepare_threshold must be a whole number"),))
    options["prepare_threshold"] = None if wanted is None else int(wanted)
    if reach is not None:
        options["hostaddr"] = reach(options["host"], int(options.get("port") or 5432))


def begin_limited(connection: Connection, seconds: float, question: Question | None) -> None:
    """Begin a transaction on a server, limit its statements, and ask the question, in one message and one round trip.

    A statement that takes longer is ended by the server, and a wait for a lock a little before. The answer holds texts.
    """
    import psycopg
    from psycopg.pq import ExecStatus, TransactionStatus

    driver: Any = connection.connection.driver_connection
    if is_pooled(connection) and not connection.in_transaction():
        connection.begin()  # it pins the session, limits included
    try:
        begun = driver.autocommit or driver.info.transaction_status != TransactionStatus.IDLE
        parts = [*([] if begun else [b"BEGIN"]), _limits(seconds).encode(), *([_spelled(driver, question)] if question else [])]
        result = driver.pgconn.exec_(b";".join(parts))
        if result.status != ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result, driver.info.encoding)
    except psycopg.Error as error:
        if driver.closed:
            connection.invalidate(error)
        raise sa_error(error) from error
    if question is not None:
        cells = [result.get_value(0, place) for place in range(result.nfields)]
        question.answer = [None if cell is None else cell.decode(driver.info.encoding) for cell in cells]


def limit_time(connection: Connection, seconds: float) -> None:
    """Limit the statements that follow in a transaction on a server."""
    connection.exec_driver_sql(_limits(seconds))


def _limits(seconds: float) -> str:
    most = max(2, int(seconds * 1000))
    return f"SELECT set_config('statement_timeout', '{most}', true), set_config('lock_timeout', '{most * 9 // 10}', true)"


def _spelled(driver: Any, question: Question) -> bytes:
    """The question with its values as literals: a message of several statements has no parameters."""
    from psycopg.sql import Literal

    first, *rest = question.query.encode().split(b"%s")
    literals = [Literal(value).as_bytes(driver) for value in question.values]
    return first + b"".join(literal + part for literal, part in zip(literals, rest, strict=True))


def is_operational(error: BaseException | None) -> bool:
    """Return True for a server's error that has nothing to do with the statement, such as a lost connection."""
    if isinstance(error, sqlite3.Error):
        return False
    import psycopg

    # A connection that breaks in the middle of an answer leaves an error without a class or a state of its own.
    lost = type(error) is psycopg.DatabaseError and error.sqlstate is None
    return lost or isinstance(error, psycopg.OperationalError)


def sa_error(error: psycopg.Error) -> DBAPIError:
    """The error as SQLAlchemy raises it for its own statements."""
    kind = sa.exc.OperationalError if is_operational(error) else DBAPIError
    return kind(None, None, error)
