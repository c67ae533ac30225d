"""The engine's database: SQLite in its folder, or PostgreSQL by URL. All differences of dialect are in here.

No connection is kept while nothing runs: a thousand idle engines cost a thousand closed files.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.functions import FunctionElement

from tenantry.model.verdicts import Halt, Invalid, Problem, Stalled, Transient
from tenantry.rest.disk import make_durable

BUSY_MS = 50
"""How long SQLite waits for a lock inside a thread. Who may wait longer comes again: see transactions.py."""
LARGEST_VALUE = 64 << 20
"""Bytes of a value, and of a row, on SQLite: an expression cannot make more."""
EXACT_DIGITS = {"sqlite": 15}
"""Digits of a decimal that a database keeps exactly; without a limit where it is not named."""

NAME_BYTES = {"postgresql": 63}
"""Bytes of a name, where there is a limit; more are cut off in silence."""

# SQLite's primary result codes, and PostgreSQL's SQLSTATEs and classes of them.
_DISK_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_DISK_STATES = ("53100", "58030")
_PASSING_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PASSING_STATES = ("08", "25006", "25P03", "40", "53", "55P03", "57", "58", "XX")
"""No connection, a server that reads only, deadlocks, no room, held locks, a shutdown, what the system or the server broke."""
_CANCELLED = "57014"
_LOCK_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_LOCK_STATE = "55P03"

FILE = "engine.db"
"""The database in an engine's folder, where it has none elsewhere."""
MIGRATION = "migration"


class Locked(Halt):
    """Another transaction holds a lock."""

    def __init__(self, told: str) -> None:
        super().__init__(Transient("DatabaseUnavailable", f"another transaction holds a lock: {told}; try again"))


class Database:
    """Transactions on one database. Blocks; used from worker threads."""

    def __init__(self, file: Path, url: str | None = None) -> None:
        self._file = None if url else file
        self._url = url or f"sqlite:///{file}"
        self._engine: Engine | None = None
        self._made = False

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
        self._mark()

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """One transaction in which tables may be rebuilt. On SQLite foreign keys are off: see check_references."""
        with self._connected() as connection:
            if self._file is not None:
                # Inside of a transaction this pragma does nothing, and what it switches off deletes rows of dropped parents.
                sqlite_driver(connection).execute("PRAGMA foreign_keys=OFF")
            with connection.execution_options(tenantry_write=True).begin():
                one_at_a_time(connection, MIGRATION)
                yield connection

    def _mark(self) -> None:
        """Leaves a mark beside the first database: one that is gone later is missed, and no empty one takes its place."""
        if self._file is not None and not self._made:
            made_mark(self._file).touch(mode=0o600)
            make_durable(self._file.parent)
            self._made = True

    def _check_there(self) -> None:
        """Raises a Stalled Halt where SQLite would make an empty database in place of one that is gone."""
        if self._file is not None and not self._file.exists() and (self._made or made_mark(self._file).exists()):
            raise data_missing(self._file)

    def close(self) -> None:
        """Lets everything go."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        self._check_there()
        if self._engine is None:
            self._engine = _engine(self._url)
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self._damaged(error) or halt_of(error, self._free()) from error

    def _damaged(self, error: DBAPIError) -> Halt | None:
        if self._file is None or getattr(error.orig, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED_CODES:
            return None
        about = f"{self._file} is damaged or no database: {error.orig}"
        return Halt(Transient("DatabaseDamaged", f"{about}. Put the file back from a copy, or `tenantry restore` a backup"))

    def _free(self) -> str:
        """How much room SQLite's file has; `""` for a database elsewhere."""
        return f" ({shutil.disk_usage(self._file.parent).free} bytes are free)" if self._file is not None else ""


def made_mark(file: Path) -> Path:
    """The file that stays beside a SQLite database from its first write on."""
    return file.with_name(f"{file.name}.made")


def data_missing(path: Path) -> Halt:
    """The file or folder was there, with data, and is gone."""
    told = (
        f"{path} is gone, with the engine's data. Put it back, or see `tenantry describe` of its environment for other ways out"
    )
    return Halt(Stalled("DataMissing", told, "Operator"))


def parsed(url: str) -> URL:
    """The URL; PostgreSQL's client library knows its scheme by two names. Raises ArgumentError."""
    known = make_url(url)
    return known.set(drivername="postgresql") if known.drivername == "postgres" else known


def _engine(url: str) -> Engine:
    engine = create_engine(parsed(url), poolclass=NullPool)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    else:
        event.listen(engine, "connect", _pin)
    return engine


SESSION = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "extra_float_digits": "3",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronous_commit": "on",
    "TimeZone": "UTC",
}
"""What a PostgreSQL session must not take from the server, the database or the role: how values are spelled, and limits."""
_PIN = "SELECT current_setting('server_encoding'), " + ", ".join(f"set_config('{k}', '{v}', false)" for k, v in SESSION.items())


def pin_session(connection: psycopg.Connection[Any]) -> None:
    """Sets SESSION, in one round trip. Raises Invalid where the database cannot hold every text."""
    row = connection.execute(_PIN).fetchone()
    if row is not None and row[0] != "UTF8":
        raise Invalid((Problem("database", f"has the encoding {row[0]}: create it with ENCODING 'UTF8'"),))


def _pin(connection: Any, _record: Any) -> None:
    try:
        pin_session(connection)
        connection.commit()
    except Invalid:
        connection.close()
        raise


def _prepare(connection: Any, _record: Any) -> None:
    # The driver's own transactions cannot hold DDL; ours begin by the event below.
    connection.isolation_level = None
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("tenantry_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def sqlite_driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection to a SQLite database."""
    driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    return driver


def limit_time(connection: Connection, seconds: float) -> None:
    """A server ends a statement of this transaction that takes longer, and a wait for a lock a little before. SQLite cannot."""
    if connection.dialect.name == "postgresql":
        most = max(2, int(seconds * 1000))
        limits = f"set_config('statement_timeout', '{most}', true), set_config('lock_timeout', '{most * 9 // 10}', true)"
        connection.exec_driver_sql(f"SELECT {limits}")


def check_references(connection: Connection, tables: Iterable[str]) -> None:
    """Looks for rows whose parent is not there, in a transaction that does not do so by itself. Raises Invalid."""
    if connection.dialect.name != "sqlite":
        return
    quoted = connection.dialect.identifier_preparer.quote_identifier
    for name in tables:
        broken = connection.exec_driver_sql(f"PRAGMA foreign_key_check({quoted(name)})").fetchall()
        if broken:
            _, row, parent, _ = broken[0]
            reason = f"{len(broken)} rows reference rows of {parent} that are not there (first: row {row})"
            raise Invalid((Problem(f"tables.{name}", reason),))


def last_generated(connection: Connection, table: str) -> int | None:
    """The last key that SQLite generated for the table; a rebuilt table must go on from there. None elsewhere."""
    if connection.dialect.name != "sqlite" or not inspect(connection).has_table("sqlite_sequence"):
        return None
    found: int | None = connection.execute(text("SELECT seq FROM sqlite_sequence WHERE name = :name"), {"name": table}).scalar()
    return found


def go_on_from(connection: Connection, table: str, last: int) -> None:
    """The counterpart of last_generated."""
    connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": table})
    connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq)"), {"name": table, "seq": last})


def go_on_after(connection: Connection, table: str, column: str) -> None:
    """Generated keys go on after the largest that is there, also where it was given. SQLite sees to that by itself."""
    if connection.dialect.name != "postgresql":
        return
    quoted = connection.dialect.identifier_preparer.quote_identifier
    largest = connection.exec_driver_sql(f"SELECT max({quoted(column)}) FROM {quoted(table)}").scalar()  # noqa: S608 - quoted
    if largest is not None and largest > 0:
        sequence = sequence_of(connection, table, column)
        connection.execute(text("SELECT setval(:sequence, :largest)"), {"sequence": sequence, "largest": largest})


def sequence_of(connection: Connection, table: str, column: str) -> str:
    """The sequence that makes a column's keys, on PostgreSQL, spelled as SQL takes it."""
    quoted = connection.dialect.identifier_preparer.quote_identifier
    query = text("SELECT pg_get_serial_sequence(:table, :column)")
    return str(connection.execute(query, {"table": quoted(table), "column": column}).scalar_one())


def lock_name(what: str) -> str:
    """By which those know each other who do the same, on PostgreSQL."""
    return f"tenantry {what}"


def one_at_a_time(connection: Connection, what: str) -> None:
    """Until this transaction ends, no other process does the same. SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:what, 0))"), {"what": lock_name(what)})


def keep_others_out(connection: Connection, tables: Iterable[str]) -> None:
    """Until this transaction ends, nobody else reads or writes those tables: what is counted now stays so."""
    if connection.dialect.name == "postgresql":
        quoted = connection.dialect.identifier_preparer.quote_identifier
        for name in sorted(tables):
            connection.exec_driver_sql(f"LOCK TABLE {quoted(name)} IN ACCESS EXCLUSIVE MODE")


class NewUuid(FunctionElement[Any]):
    """A random UUID (version 4) as a default."""

    inherit_cache = True


@compiles(NewUuid, "sqlite")
def _new_uuid_sqlite(element: NewUuid, compiler: Any, **options: Any) -> str:
    middle = "'4' || substr(hex(randomblob(2)), 2) || substr('89AB', 1 + (abs(random()) % 4), 1) || substr(hex(randomblob(2)), 2)"
    return f"lower(hex(randomblob(6)) || {middle} || hex(randomblob(6)))"


@compiles(NewUuid, "postgresql")
def _new_uuid_postgresql(element: NewUuid, compiler: Any, **options: Any) -> str:
    return "gen_random_uuid()"


class ExactNumber(FunctionElement[Any]):
    """A double as the decimal number that it is written as, on PostgreSQL."""

    inherit_cache = True
    type = sa.Numeric()


@compiles(ExactNumber, "postgresql")
def _exact_number_postgresql(element: ExactNumber, compiler: Any, **options: Any) -> str:
    # Its own cast of doubles to numeric keeps 15 digits.
    return f"CAST(CAST({compiler.process(element.clauses, **options)} AS TEXT) AS NUMERIC)"


def halt_of(error: DBAPIError, free: str = "") -> Halt:
    """What a database error means: the package's or the rows' fault, or a passing one, a full disk among them.

    free: how much room the disk has, as words.
    """
    told = str(error.orig)
    state = str(getattr(error.orig, "sqlstate", None) or "")
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the rest of it says more precisely where
    if "interrupted" in told or state == _CANCELLED:
        return Invalid((Problem("query", "takes too long"),))
    if code in _LOCK_CODES or state == _LOCK_STATE:
        return Locked(told)
    if code in _DISK_CODES or state in _DISK_STATES:
        return Halt(Transient("DiskUnwritable", f"the disk of the database cannot be written: {told}{free}"))
    lost = error.connection_invalidated or (isinstance(error.orig, psycopg.OperationalError) and not state)
    if code in _PASSING_CODES or state.startswith(_PASSING_STATES) or lost:
        return Halt(Transient("DatabaseUnavailable", f"the database does not take it now: {told}"))
    return Invalid((Problem("database", told),))
