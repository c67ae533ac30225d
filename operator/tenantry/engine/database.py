"""The engine's database: SQLite in its folder, or PostgreSQL by URL. All differences between the two dialects are here.

No connection is kept for long while nothing runs (sql/pool.py): a thousand idle engines cost a thousand closed files.
"""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import structlog
from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError

from tenantry.engine.sql.driver import ShortRead
from tenantry.engine.sql.engines import WRITES, file_engine, server_engine
from tenantry.engine.sql.files import DATABASE_DAMAGED, FoundDamage, data_missing, is_missed, made_mark
from tenantry.engine.sql.moving import moves, refuse_moving
from tenantry.engine.sql.pool import KeptPool
from tenantry.engine.sql.server_session import STALE_PLAN, Question, Reach, is_operational
from tenantry.engine.sql.short_reads import SHORT_READS, NotShort
from tenantry.model.verdicts import Halt, Invalid, Problem, Transient, path_text
from tenantry.model.wording import counted
from tenantry.rest.disk import make_durable

T = TypeVar("T")
_log = structlog.get_logger(__name__)
EXACT_DIGITS = {"sqlite": 15}
"""Digits of a decimal that a database keeps exactly; a database that is not named has no limit."""

NAME_BYTES = {"postgresql": 63}
"""The most bytes of a name, by database; longer names are cut off in silence."""

# SQLite's primary result codes, and PostgreSQL's SQLSTATEs and classes of them.
_DISK_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_DISK_STATES = ("53100", "58030")
_PASSING_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PASSING_STATES = ("08", "25006", "25P03", "40", "53", "55P03", "57", "58", "XX")
"""No connection, a server that reads only, deadlocks, no room, held locks, a shutdown, what the system or the server broke."""
_CANCELLED = "57014"
_NO_RIGHT = "42501"
_MAY_WRITE = "SELECT has_table_privilege(to_regclass('_tenantry_installed'), 'INSERT')"
_LOCK_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_LOCK_STATES = ("55P03", "40P01")
"""A lock that was not free in time, and a deadlock: another try may succeed in both cases."""

"""The file of the database in an engine's folder, unless it is elsewhere."""
AHEAD = "_tenantry_ahead_"
"""Prefix of the names of indexes that are built ahead of a migration; it renames them."""
MIGRATION = "migration"
UNAVAILABLE = "DatabaseUnavailable"
TURN_S = 0.5
"""Seconds that an install waits at a stretch for the end of another, or of a backup."""


class Locked(Halt):
    """Another transaction holds a lock."""

    def __init__(self, told: str) -> None:
        super().__init__(Transient("DatabaseUnavailable", f"another transaction holds a lock: {told}; try again"))


class Database:
    """Transactions on one database. Blocks; used from worker threads."""

    def __init__(self, file: Path, url: str | None = None, reach: Reach | None = None, *, named: bool = True) -> None:
        """reach: asked for each connection to a server; whatever its name leads to where None. named: errors may name the server,
        which is of those who read them."""
        self._named = named
        self._file = None if url else file
        self._reach = reach
        self._url = url or ""
        self._engine: Engine | None = None
        self._made = False
        self._damage = FoundDamage(file)

    @property
    def damage(self) -> Halt | None:
        """The answer to the statement that found the file damaged, if one did."""
        return self._damage.halt

    @property
    def exists(self) -> bool:
        """Return True if a SQLite database exists. A server's always does."""
        return self._file is None or self._file.exists()

    @property
    def is_marked(self) -> bool:
        """Return True if a SQLite database was there before, so that it is missed if it is gone. Blocks."""
        return self._file is not None and (self._made or made_mark(self._file).exists())

    @property
    def on_server(self) -> bool:
        """Return True for PostgreSQL."""
        return self._file is None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view."""
        with self._connected() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, committed at the end unless the block raises."""
        with self._connected() as connection, connection.execution_options(**{WRITES: True}).begin():
            self._check_not_moving()
            yield connection
        self._mark()

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """One transaction in which tables may be rebuilt. On SQLite foreign keys are off: see check_references."""
        with self._connected() as connection:
            if self._file is not None:
                # Inside of a transaction this pragma does nothing, and what it switches off deletes rows of dropped parents.
                sqlite_driver(connection).execute("PRAGMA foreign_keys=OFF")
            try:
                with connection.execution_options(**{WRITES: True}).begin():
                    self._check_not_moving()
                    if self._file is None:
                        bound_lock_waits(connection, TURN_S)
                    one_at_a_time(connection, MIGRATION)
                    if self._file is None and connection.exec_driver_sql(_MAY_WRITE).scalar_one() is False:
                        raise moves()  # DDL needs no right to write rows
                    yield connection
            finally:
                connection.invalidate()  # nobody else uses it again without foreign keys

    def short_read(self, tenant: str, about: Hashable, work: Callable[[ShortRead], T], joined: Question | None = None) -> T:
        """Return the result of `work`, in the event loop. joined: is asked with its only statement, as ShortRead. Raises
        NotShort, and what `work` raises."""
        engine = self._engine
        if self._file is None or engine is None:
            raise NotShort
        assert isinstance(engine.pool, KeptPool)

        def within(driver: sqlite3.Connection) -> T:
            return work(ShortRead(driver, engine.dialect, joined))

        return SHORT_READS.run(tenant, about, engine.pool, within, single=joined is not None)

    def server_pool(self) -> tuple[KeptPool, Dialect]:
        """The connections to a server, and its dialect."""
        if self._engine is None:
            self._engine = self._made_engine()
        assert isinstance(self._engine.pool, KeptPool)
        return self._engine.pool, self._engine.dialect

    @contextmanager
    def outside(self) -> Iterator[Connection]:
        """No transaction, for statements that PostgreSQL runs in none: each counts by itself."""
        with self._connected() as connection:
            try:
                yield connection.execution_options(isolation_level="AUTOCOMMIT")
            finally:
                connection.invalidate()  # with the locks and settings of its session

    def _check_not_moving(self) -> None:
        """Raises a Waiting Halt (Moving) if nothing may be written now. Asked under the lock of the database."""
        if self._file is not None:
            refuse_moving(self._file.parent)

    def _mark(self) -> None:
        """Leaves a mark beside the first database: one that is gone later is missed, and no empty one takes its place."""
        if self._file is not None and not self._made:
            made_mark(self._file).touch(mode=0o600)
            make_durable(self._file.parent)
            self._made = True

    def _check_there(self) -> None:
        """Raises a Stalled Halt for a database that is gone, was emptied, or is no file: SQLite would make an empty one."""
        if self._file is None:
            return
        try:
            found = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise data_missing(self._file, "is not a file")
        if (found is None or not found.st_size) and is_missed(self._file, made=self._made):
            raise data_missing(self._file)

    def close(self) -> None:
        """Lets everything go."""
        if self._engine is not None:
            self._engine.pool.dispose()
            self._engine = None

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        self._check_there()
        if self._engine is None:
            self._engine = self._made_engine()
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            if STALE_PLAN in str(error.orig):
                assert isinstance(self._engine.pool, KeptPool)
                self._engine.pool.forget()
            raise self.meaning_of(error) from error

    def _made_engine(self) -> Engine:
        return server_engine(self._url, self._reach) if self._file is None else file_engine(self._file)

    def meaning_of(self, error: DBAPIError) -> Halt:
        """Return the refusal that an error of this database means."""
        if not self._named and getattr(error.orig, "sqlstate", None) == _NO_RIGHT:
            return moves()  # the role has all rights, until it takes some from itself: engine/logical/moving.py
        halt = self._damaged(error) or halt_of(error, self._free())
        if self._named or self._file is not None or halt.verdict.reason != UNAVAILABLE or getattr(error.orig, "sqlstate", None):
            return halt
        return unreached(error.orig)

    def _damaged(self, error: DBAPIError) -> Halt | None:
        if self._file is None or getattr(error.orig, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED_CODES:
            return None
        about = f"{path_text(self._file)} is damaged or no database: {error.orig}"
        halt = Halt(Transient(DATABASE_DAMAGED, f"{about}. Put the file back from a copy, or `tenantry restore` a backup"))
        self._damage.note(halt)
        return halt

    def _free(self) -> str:
        """Return the free space for SQLite's file; `""` for a database elsewhere, or in a folder that is gone."""
        if self._file is None:
            return ""
        try:
            return f" ({shutil.disk_usage(self._file.parent).free} bytes are free)"
        except FileNotFoundError:
            return ""


def sqlite_driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection to a SQLite database."""
    driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    return driver


def bound_lock_waits(connection: Connection, seconds: float) -> None:
    """Each statement of this transaction waits for a lock at most that long. PostgreSQL only."""
    connection.exec_driver_sql(f"SELECT set_config('lock_timeout', '{max(1, int(seconds * 1000))}', true)")


_SIZES = {
    "sqlite": "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    "postgresql": "SELECT pg_database_size(current_database())",
}


def size_of(connection: Connection) -> int:
    """Bytes of the database with what this transaction added. On SQLite without what was freed, which is used again."""
    return int(connection.exec_driver_sql(_SIZES[connection.dialect.name]).scalar_one())


def check_references(connection: Connection, tables: Iterable[str]) -> None:
    """Looks for rows whose parent is not there, in a transaction that does not do so by itself. Raises Invalid."""
    if connection.dialect.name != "sqlite":
        return
    quoted = connection.dialect.identifier_preparer.quote_identifier
    for name in tables:
        broken = connection.exec_driver_sql(f"PRAGMA foreign_key_check({quoted(name)})").fetchall()
        if broken:
            _, row, parent, _ = broken[0]
            reason = f"{counted(len(broken), 'reference')} to rows of {parent} that are not there (first: in row {row})"
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
    """The name of the advisory lock that processes with the same task share, on PostgreSQL."""
    return f"tenantry {what}"


def one_at_a_time(connection: Connection, what: str) -> None:
    """Keep other processes from doing the same until this transaction ends. SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:what, 0))"), {"what": lock_name(what)})


def unreached(error: BaseException | None) -> Halt:
    """Return the verdict for a server that is not reached, for who may not read its name; the log has it."""
    _log.error("the server of a database is not reached", error=message_of(error))
    return Halt(Transient(UNAVAILABLE, "the database is not available: its server is not reached"))


def message_of(error: BaseException | None) -> str:
    """Return the message of a driver's error in one line: without the statement, which a server repeats below it."""
    diagnosis = getattr(error, "diag", None)
    said = [getattr(diagnosis, part, None) for part in ("message_primary", "message_detail")]
    return " ".join(" ".join(filter(None, said)).split()) or " ".join(str(error).split())


def halt_of(error: DBAPIError, free: str = "") -> Halt:
    """Return the meaning of a database error: a fault of the package or the rows, or a passing one, such as a full disk.

    free: the free space of the disk, as words.
    """
    told = message_of(error.orig)
    state = str(getattr(error.orig, "sqlstate", None) or "")
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the rest of it says more precisely where
    if "interrupted" in told or state == _CANCELLED:
        return Invalid((Problem("query", "takes too long"),))
    if code in _LOCK_CODES or state in _LOCK_STATES or STALE_PLAN in told:
        return Locked(told)
    if code in _DISK_CODES or state in _DISK_STATES:
        return Halt(Transient("DiskUnwritable", f"the disk of the database cannot be written: {told}{free}"))
    lost = error.connection_invalidated or (not state and is_operational(error.orig))
    if code in _PASSING_CODES or state.startswith(_PASSING_STATES) or lost:
        return Halt(Transient(UNAVAILABLE, f"the database is not available: {told}"))
    return Invalid((Problem("database", told),))
