"""The operator's part of a pool on a PostgreSQL server: it makes the role and the database of each engine, and drops them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import structlog

from tenantry.adapters.database_url import checked
from tenantry.adapters.pools.server_urls import ServerDatabase, engine_database, pool_database, pool_url
from tenantry.engine.sql.alive import ALIVE
from tenantry.kinds.region.pools import FIELD
from tenantry.model.facts import EngineRef
from tenantry.model.resource import SYSTEM_NAMESPACE, SecretKeyRef
from tenantry.model.verdicts import Halt, MayAct, Stalled, Transient
from tenantry.ports import Secrets
from tenantry.tracing.work import span

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

    Connection = psycopg.Connection[tuple[Any, ...]]

FOR_KIND = "region"
EACH = 18
"""The most connections of one replica to the database of one engine, on up to four cores."""
CONNECTIONS = 100
"""The most connections of the role of an engine, of all replicas together, or EACH for each of them if that is more. The limit is
for whoever else has the password."""
UNLIMITED = -1
"""Connections of the role of a pool itself: its replicas use few."""
ROLES, DATABASES = ("pg_roles", "rolname"), ("pg_database", "datname")
AT_ONCE = 4
"""Databases that are made or dropped at a time: each copies some 8 MB, and a server has other work."""
CONNECT_S = 5
IDLE_MS = 10_000
"""Milliseconds between two statements after which the server ends the session. Of a process that was stopped in between, another
one takes the lease over later than that, so the rest of its work does not reach what that one made."""
_THERE_ALREADY = ("42710", "42P04", "23505")
"""SQLSTATEs of a role and a database that another made meanwhile."""
_REFUSED = ("22023", "28", "42501", "42P17", "0A000", "0LP01")
"""SQLSTATEs, and a beginning of them: a role that may not do it, or a server whose locale has no UTF8."""
_LIMITS = "SELECT set_config('statement_timeout', '120s', false), set_config('lock_timeout', '30s', false)"
_IDLE = "SELECT set_config(name, %s, false) FROM pg_settings WHERE name = 'idle_session_timeout'"
"""A server before PostgreSQL 14 does not have it."""
_ROOM = """
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true)::int, 0), pg_backend_pid()
"""
log = structlog.get_logger(__name__)


class PoolServers(Protocol):
    """The view of declared pools."""

    def server_of(self, pool: str) -> SecretKeyRef | None:
        """The Secret with the URL of the server of the pool with that id, None for a pool on a volume."""

    def replicas_of(self, pool: str) -> int:
        """The largest number of pods that the pool with that id may have."""


class _PoolServer(NamedTuple):
    """The URL of a server's administrator, and that of a pool on it."""

    admin: str
    pool_url: str


class ServerDatabases:
    """The databases of engines in pools on servers. secret: of the platform, from which passwords are derived.

    check: raises a Halt once another operator may act: it may have made a database of the same name again.
    """

    def __init__(self, pools: PoolServers, secrets: Secrets, secret: str, check: MayAct | None = None) -> None:
        self._pools = pools
        self._secrets = secrets
        self._secret = secret
        self._check: MayAct = check or (lambda: None)
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        """By the URL of a server: one that hangs keeps nobody from another."""

    async def ensure(self, pool: str, ref: EngineRef) -> None:
        """Make the role and the database of an engine, unless its pool is on a volume. Idempotent, also after a crash.

        Raises Halt: DatabaseUrlRefused, PoolServerRefuses, PoolServerUnreachable, and those of the Secret.
        """
        if (server := await self._server(pool)) is not None:
            database = engine_database(server.pool_url, pool, ref.id)
            told = f"Tenantry: the environment with the id {ref.id}"  # every role of the server may read it
            limit = self._limit(pool)
            await self._done(server.admin, "make", lambda connection: _ensure(connection, database, told, limit, self._check))

    async def drop(self, pool: str, ref: EngineRef) -> None:
        """Drop the database of an engine with its rows, and its role. Idempotent. Raises Halt as `ensure` does."""
        if (server := await self._server(pool)) is not None:
            name = engine_database(server.pool_url, pool, ref.id).name
            await self._done(server.admin, "drop", lambda connection: _drop(connection, name, self._check))

    def is_on_server(self, pool: str) -> bool:
        """Return True if the engines of a pool have databases on a server."""
        return self._pools.server_of(pool) is not None

    async def ensure_pool(self, pool: EngineRef, scaled_to: int = 0) -> None:
        """Make the role and the database of a pool itself, unless it is on a volume. Idempotent.

        scaled_to: the most pods that an autoscaler may make; 0 for a declared number. Raises Halt as `ensure` does, and
        PoolServerTooSmall.
        """
        if (server := await self._server(pool.id)) is not None:
            database, limit = pool_database(server.pool_url), self._limit(pool.id)
            told = f"Tenantry: pool {pool.slug} of region {pool.name}, its records, packages and archives"

            def work(connection: Connection) -> None:
                _check_room(connection, pool.slug, scaled_to)
                _ensure(connection, database, told, UNLIMITED, self._check)
                _limit_engines(connection, database.name, limit, self._check)

            await self._done(server.admin, "make", work)

    async def drop_pool(self, pool: EngineRef) -> None:
        """Drop the database of a pool itself, and its role. Idempotent. Raises Halt as `ensure` does."""
        if (server := await self._server(pool.id)) is not None:
            name = pool_database(server.pool_url).name
            await self._done(server.admin, "drop", lambda connection: _drop(connection, name, self._check))

    async def has_pool(self, pool: EngineRef) -> bool:
        """Return True if there is a database of a pool itself. Raises Halt as `ensure` does."""
        server = await self._server(pool.id)
        if server is None:
            return False
        name, found = pool_database(server.pool_url).name, list[bool]()
        await self._done(server.admin, "look", lambda connection: found.append(_is_there(connection, *DATABASES, name)))
        return found[0]

    def _limit(self, pool: str) -> int:
        return max(CONNECTIONS, EACH * self._pools.replicas_of(pool))

    async def _server(self, pool: str) -> _PoolServer | None:
        secret = self._pools.server_of(pool)
        if secret is None:
            return None
        revealed = await self._secrets.reveal(SYSTEM_NAMESPACE, secret.name, secret.key, FOR_KIND)
        admin = checked(revealed.clear, FIELD)
        return _PoolServer(admin, pool_url(admin, pool, self._secret))

    async def _done(self, admin: str, what: str, work: Callable[[Connection], None]) -> None:
        async with self._turns[admin]:
            with span(f"{what} database", "client"):
                await asyncio.to_thread(_connected, admin, work, self._check)


def _connected(admin: str, work: Callable[[Connection], None], check: MayAct) -> None:
    import psycopg

    with _understood(), psycopg.connect(admin, autocommit=True, connect_timeout=CONNECT_S, **ALIVE) as connection:
        connection.execute(_LIMITS)
        connection.execute(_IDLE, (str(IDLE_MS),))
        check()  # after the wait for the server, which from here on sees a process that is stopped
        work(connection)


@contextmanager
def _understood() -> Iterator[None]:
    """Raise errors of the server as Halts. They name no server, for tenants read them on their Environments; the log does."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        log.error("the server of a pool refuses", sqlstate=state, error=" ".join(str(error).split()))
        if state.startswith(_REFUSED):
            told = f"the server of the pool refuses the administrator's role (SQLSTATE {state}); the operator's log has its words"
            raise Halt(Stalled("PoolServerRefuses", told, "Operator")) from error
        how = f"does not do it now (SQLSTATE {state})" if state else "is not reached, or refuses the sign-in"
        raise Halt(
            Transient("PoolServerUnreachable", f"the server of the pool {how}; the operator's log has its words")
        ) from error


def _ensure(connection: Connection, database: ServerDatabase, told: str, connections: int, check: MayAct) -> None:
    """The order lets no neighbour in between: who is not the owner may connect only until the second statement about it."""
    from psycopg.sql import SQL, Identifier, Literal

    name = Identifier(database.name)
    _one_at_a_time(connection, database.name, check)
    verifier = connection.pgconn.encrypt_password(database.password.encode(), database.name.encode(), b"scram-sha-256")
    rights = SQL("LOGIN CONNECTION LIMIT {} PASSWORD {}").format(Literal(connections), Literal(verifier.decode()))
    if not _is_there(connection, *ROLES, database.name):
        _unless_there(connection, SQL("CREATE ROLE {} WITH {}").format(name, rights))
    connection.execute(SQL("ALTER ROLE {} WITH {}").format(name, rights))
    # Only who is a member may make a database for a role, and end its sessions.
    connection.execute(SQL("GRANT {} TO CURRENT_USER").format(name))
    if not _is_there(connection, *DATABASES, database.name):
        # From template0, which nobody connects to: a session at template1 would be in the way, and its objects would come along.
        made = SQL("CREATE DATABASE {} WITH OWNER {} TEMPLATE template0 ENCODING 'UTF8'")
        _unless_there(connection, made.format(name, name))
    connection.execute(SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    connection.execute(SQL("COMMENT ON DATABASE {} IS {}").format(name, Literal(told)))


def _drop(connection: Connection, name: str, check: MayAct) -> None:
    from psycopg.sql import SQL, Identifier

    _one_at_a_time(connection, name, check)
    if _is_there(connection, *ROLES, name):
        # A pool that has the engine open would connect again.
        connection.execute(SQL("ALTER ROLE {} WITH NOLOGIN").format(Identifier(name)))
    connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
    connection.execute(SQL("DROP ROLE IF EXISTS {}").format(Identifier(name)))


def _check_room(connection: Connection, pool: str, replicas: int) -> None:
    """Raise Halt (PoolServerTooSmall) if a server has fewer connections than the pods of one busy engine use.

    A pooler shares few connections of the server among many clients, so behind one nothing is known.
    """
    row = connection.execute(_ROOM).fetchone()
    assert row is not None
    room, pid = row
    if room >= replicas * EACH or pid != connection.info.backend_pid:
        return
    told = (
        f"maxReplicas {replicas} of pool {pool}: its server takes {room} connections, and each pod needs {EACH}; lower it to"
        f" {room // EACH} at most, or raise max_connections of the server by {replicas * EACH - room}"
    )
    raise Halt(Stalled("PoolServerTooSmall", told, "Operator"))


def _limit_engines(connection: Connection, pool: str, limit: int, check: MayAct) -> None:
    """Give the engines of a pool, whose names begin with its own, the limit that follows from the number of its pods."""
    from psycopg.sql import SQL, Identifier, Literal

    query = "SELECT rolname::text FROM pg_roles WHERE starts_with(rolname::text, %s) AND rolconnlimit <> %s ORDER BY rolname"
    for (name,) in connection.execute(query, (f"{pool}_", limit)).fetchall():
        _one_at_a_time(connection, name, check)
        if _is_there(connection, *ROLES, name):
            connection.execute(SQL("ALTER ROLE {} CONNECTION LIMIT {}").format(Identifier(name), Literal(limit)))
        connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (name,))


def _one_at_a_time(connection: Connection, name: str, check: MayAct) -> None:
    """Keep others out until this connection ends: of two that change one role, the server refuses one with an internal error.

    Raises Halt if another operator may act by now: it may have had the lock until now. None has it while this one goes on.
    """
    connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (name,))
    check()


def _is_there(connection: Connection, catalog: str, column: str, name: str) -> bool:
    from psycopg.sql import SQL, Identifier

    query = SQL("SELECT 1 FROM {} WHERE {} = %s").format(Identifier(catalog), Identifier(column))
    return connection.execute(query, (name,)).fetchone() is not None


def _unless_there(connection: Connection, statement: Composed) -> None:
    """Of two passes that make it at once, the second finds it there."""
    import psycopg

    try:
        connection.execute(statement)
    except psycopg.Error as error:
        if error.sqlstate not in _THERE_ALREADY:
            raise
