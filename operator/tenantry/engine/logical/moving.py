"""An engine on a server that moves to another place: nobody may write its tables, whichever process has it open.

The role of the engine takes the rights to write from itself, once it holds locks that wait for the end of all writes. So no write
comes later, and no write asks whether it may.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from psycopg import sql

from tenantry.engine import records
from tenantry.engine.database import Locked, lock_name
from tenantry.engine.logical.catalog import names
from tenantry.engine.logical.session import keep_migrations_out, session
from tenantry.model.verdicts import Halt, Transient, Waiting

if TYPE_CHECKING:
    from tenantry.engine.logical.session import Connection

DRAIN_S = 3.0
"""The longest time to wait for the end of a write, such as a migration. Other writes wait as long."""
TRY_S = 0.6
"""Of that, a single wait for a lock. It ends before PostgreSQL looks for a deadlock, which would end a write instead."""
VACUUM_S = 1.6
"""Instead of it, where a vacuum is in the way: PostgreSQL ends one for who has waited for a second."""
_MARKED = records.INSTALLED.name
_MOVING, _GIVEN = "moving", "given"
_WRITES = sql.SQL("INSERT, UPDATE, DELETE, TRUNCATE")


def freeze(url: str) -> str:
    """Make the engine of that database read-only, and return its token. Idempotent. Blocks. Raises Halt (MoveWaits)."""
    until, wait_s = time.monotonic() + DRAIN_S, TRY_S
    while True:
        try:
            return _frozen(url, wait_s)
        except Locked as locked:
            if time.monotonic() > until:
                told = f"a write, a migration or a backup does not end within {DRAIN_S:.0f} s; the move tries again"
                raise Halt(Transient("MoveWaits", told)) from locked
        wait_s = VACUUM_S if _is_vacuumed(url) else TRY_S


def token_of(url: str) -> str:
    """Return the token of an engine that is read-only, `""` of one that is not. Blocks. Raises Halt."""
    with session(url, named=False) as connection:
        return next(iter(_mark(connection)), "")


def give(url: str, token: str) -> None:
    """Let the engine go, if it is read-only by that token. Idempotent. Blocks. Raises Halt (MoveStale)."""
    with session(url, named=False) as connection, connection.transaction():
        _one_at_a_time(connection)
        if not token or _mark(connection)[:1] != [token]:
            raise Halt(Transient("MoveStale", "the engine was written since it was copied; the move goes on with another copy"))
        _put(connection, f"{_MOVING} {token} {_GIVEN}")


def thaw(url: str, *, cancelled: bool) -> None:
    """Let the engine be written again. Idempotent. cancelled: it runs nowhere else, and will not.

    Blocks. Raises a Waiting Halt (Moving) if it was let go and is not cancelled.
    """
    with session(url, named=False) as connection, connection.transaction():
        _one_at_a_time(connection)
        mark = _mark(connection)
        if not mark:
            return
        if not cancelled and mark[1:] == [_GIVEN]:
            raise Halt(Waiting("Moving", "the engine may run in its new place already, and stays read-only here", expected=True))
        connection.execute(sql.SQL("GRANT {} ON {} TO CURRENT_USER").format(_WRITES, _all(connection)))
        _put(connection, None)


def _frozen(url: str, wait_s: float) -> str:
    with session(url, named=False) as connection, connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{wait_s * 1000:.0f}ms",))
        _one_at_a_time(connection)
        keep_migrations_out(connection)
        if mark := _mark(connection):
            return mark[0]
        token, tables = secrets.token_hex(16), _all(connection)
        # SHARE lets others read, and waits for those who wrote. A statement that waits for them finds its right gone.
        connection.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(tables))
        connection.execute(sql.SQL("REVOKE {} ON {} FROM CURRENT_USER").format(_WRITES, tables))
        _put(connection, f"{_MOVING} {token}")
        return token


def _is_vacuumed(url: str) -> bool:
    """Return True if only a vacuum has the tables: the server ends it for who waits a second, and no write is in a deadlock."""
    with session(url, named=False) as connection:
        query = """
            SELECT bool_or(mode = 'ShareUpdateExclusiveLock') AND NOT bool_or(mode = 'RowExclusiveLock') FROM pg_locks
            WHERE granted AND pid <> pg_backend_pid() AND locktype = 'relation'
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        """
        return connection.execute(query).fetchone() == (True,)


def _one_at_a_time(connection: Connection) -> None:
    """Change the mark alone. It takes no part in the lock of installs: a backup holds that as long as it takes."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock_name("move"),))


def _all(connection: Connection) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names(connection)))


def _mark(connection: Connection) -> list[str]:
    """Return the token, and `given` once the engine was let go; nothing for one that is not read-only."""
    row = connection.execute("SELECT obj_description(to_regclass(%s), 'pg_class')", (_MARKED,)).fetchone()
    noted = [] if row is None or row[0] is None else str(row[0]).split(" ")
    return noted[1:] if noted[:1] == [_MOVING] else []


def _put(connection: Connection, note: str | None) -> None:
    connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(_MARKED), sql.Literal(note)))
