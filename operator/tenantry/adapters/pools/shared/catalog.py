"""The database of a pool on a server, which its replicas share: the records of its engines, their keys, packages and archives.

What a replica has in its folder is a copy. It may vanish at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, LiteralString, NamedTuple

import structlog

from tenantry.engine.sql.alive import ALIVE
from tenantry.model.verdicts import Halt, NotFound, Transient, Waiting

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_S = 5
PART = 1 << 20
"""Bytes of a part of a package or an archive."""
_LIMITS = """
SELECT set_config('statement_timeout', '60s', true), set_config('lock_timeout', '20s', true),
    set_config('idle_in_transaction_session_timeout', '60s', true)
"""
PACKAGES = 7_301_003
"""The advisory lock of packages: shared by those who bring them, and for one alone who removes them."""
_MAKING, _WRITING = 7_301_001, 7_301_002
"""Advisory locks of this database: of its tables, and of what changes the records. With the second, a change that has the higher
number is committed later: who has read it has read all before it."""
_TABLES = """
CREATE SEQUENCE IF NOT EXISTS changes;
CREATE TABLE IF NOT EXISTS engines (
    id text PRIMARY KEY, body bytea, changed bigint NOT NULL, brought boolean NOT NULL DEFAULT false
);
CREATE TABLE IF NOT EXISTS closed (until timestamptz NOT NULL);
CREATE INDEX IF NOT EXISTS engines_changed ON engines (changed);
CREATE TABLE IF NOT EXISTS keys (engine text, name text, content bytea NOT NULL, PRIMARY KEY (engine, name));
CREATE TABLE IF NOT EXISTS packages (
    engine text, sha256 text, since timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (engine, sha256)
);
CREATE TABLE IF NOT EXISTS archives (name text PRIMARY KEY, facts bytea NOT NULL, since timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS declared (name text PRIMARY KEY, documents bytea NOT NULL, since timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS blobs (name text, part int, content bytea NOT NULL, PRIMARY KEY (name, part));
ALTER TABLE blobs ALTER COLUMN content SET STORAGE EXTERNAL;
"""
_GUESSES = """
CREATE UNLOGGED TABLE IF NOT EXISTS guesses (
    engine text, who bytea, failures int NOT NULL, last float8 NOT NULL, until float8 NOT NULL, PRIMARY KEY (engine, who)
);
CREATE INDEX IF NOT EXISTS guesses_until ON guesses (until);
"""
"""A failed sign-in writes no log of the server, so guesses cost its disk nothing. A server that crashes forgets them."""
_ASKED = """
CREATE UNLOGGED TABLE IF NOT EXISTS asked (
    replica text PRIMARY KEY, at timestamptz NOT NULL, engines text[] NOT NULL, rates float8[] NOT NULL
);
"""
"""The same of the rates of requests, which are of the last second."""
_CHANGES = """
WITH present AS (
    SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), 'engines'::regclass::oid,
        (SELECT oid FROM pg_database WHERE datname = current_database())) AS life, last_value FROM changes
), since AS (SELECT life, CASE WHEN life = %s AND last_value >= %s THEN %s ELSE 0 END AS number FROM present)
SELECT life, number = 0, id, body, changed, brought FROM since LEFT JOIN engines ON changed > number ORDER BY changed
"""
"""A server that goes on from an older state, such as a backup or a standby that was behind, gives its numbers again. It was
started at another time, or has another table."""

log = structlog.get_logger(__name__)


class RecordChange(NamedTuple):
    """A record as it is now. body: None for one that was removed; brought: the backup that it waits for is there."""

    id: str
    body: bytes | None
    changed: int
    brought: bool


class RecordChanges(NamedTuple):
    """Records that changed, the oldest change first. life: of the numbers of changes; whole: they are all that there are."""

    life: str
    whole: bool
    records: Sequence[RecordChange]


class CatalogRecord(NamedTuple):
    """A record that is to be kept. awaits: the engine waits for a backup; known: it was on its database before, so it is no new
    one, and a record that is gone does not come back by it."""

    id: str
    body: bytes
    awaits: bool
    known: bool = False


class Catalog:
    """Blocks; safe between threads. Its calls raise a Transient Halt (PoolServerUnreachable)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._kept: Connection | None = None

    def prepare(self) -> None:
        """Make the tables, where they are missing."""
        with self.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            # Not again at each start: the statements wait for all who write, and keep others waiting.
            for last, tables in (("blobs", _TABLES), ("guesses", _GUESSES), ("asked", _ASKED)):
                if connection.execute("SELECT to_regclass(%s)", (last,)).fetchone() == (None,):
                    connection.execute(tables)

    def close(self) -> None:
        """Let the connection go."""
        with self._lock:
            if self._kept is not None:
                self._kept.close()
                self._kept = None

    def changes(self, after: int = 0, life: str = "") -> RecordChanges:
        """Return the records that changed after that number. They are all if it is a number of another life."""
        with self.transaction() as connection:
            rows = connection.execute(_CHANGES, (life, after, after)).fetchall()
        found = [RecordChange(*row[2:]) for row in rows if row[2] is not None]
        return RecordChanges(rows[0][0], rows[0][1], found)

    def put(self, records: Sequence[CatalogRecord]) -> None:
        """Keep records. Raises NotFound for one that is gone, a Waiting Halt (PoolClosing) for a new one while the pool is being
        removed."""
        query = """
            INSERT INTO engines (id, body, changed) VALUES (%(id)s, %(body)s, nextval('changes'))
            ON CONFLICT (id) DO UPDATE
            SET body = excluded.body, changed = excluded.changed, brought = engines.brought AND %(awaits)s
        """
        with self.writing() as connection, connection.cursor() as cursor:
            ids = [record.id for record in records]
            live = "SELECT id FROM engines WHERE id = ANY(%s) AND body IS NOT NULL"
            there = {row[0] for row in cursor.execute(live, (ids,)).fetchall()}
            closed = cursor.execute("SELECT max(until) FROM closed WHERE until > now()").fetchone()
            if not there.issuperset(ids) and closed is not None and closed[0] is not None:
                raise Halt(Waiting("PoolClosing", "the pool is being removed", closed[0]))
            gone = [record.id for record in records if record.known and record.id not in there]
            if gone:
                raise NotFound(f"the engine {gone[0]} is no longer in this pool")
            cursor.executemany(query, [record._asdict() for record in records])

    def bring(self, id_: str) -> None:
        """Note that the backup of an engine is there."""
        with self.writing() as connection:
            query = "UPDATE engines SET brought = true, changed = nextval('changes') WHERE id = %s AND body IS NOT NULL"
            connection.execute(query, (id_,))

    def shut(self, seconds: float) -> int:
        """Take no new record for that time, if there is none. Return the number of records that there are."""
        with self.writing() as connection:
            row = connection.execute("SELECT count(*) FROM engines WHERE body IS NOT NULL").fetchone()
            assert row is not None
            if not row[0]:
                connection.execute("DELETE FROM closed")
                connection.execute("INSERT INTO closed VALUES (now() + make_interval(secs => %s))", (seconds,))
            return int(row[0])

    def remove(self, id_: str) -> None:
        """Forget an engine with its keys, packages and failed sign-ins. Idempotent."""
        with self.writing() as connection:
            # The row stays: another replica would not notice that it is gone.
            gone = "UPDATE engines SET body = NULL, brought = false, changed = nextval('changes') WHERE id = %s"
            connection.execute(gone, (id_,))
            connection.execute("DELETE FROM keys WHERE engine = %s", (id_,))
            connection.execute("DELETE FROM packages WHERE engine = %s", (id_,))
            connection.execute("DELETE FROM guesses WHERE engine = %s", (id_,))
            connection.execute("DELETE FROM engines WHERE body IS NULL AND changed < (SELECT last_value FROM changes) - 100000")
            remove_unused(connection)

    def sweep(self) -> None:
        """Remove the packages that no engine has, and that could not go with their engines."""
        with self.transaction() as connection:
            remove_unused(connection)

    def known_keys(self, id_: str) -> Mapping[str, bytes]:
        """Return the keys of an engine that there are by the names of their files; none of an engine that is gone."""
        query = """
            SELECT name, content FROM keys
            WHERE engine = %s AND EXISTS (SELECT 1 FROM engines WHERE id = engine AND body IS NOT NULL)
        """
        return {row[0]: row[1] for row in self.asked(query, (id_,))}

    def keys(self, id_: str, made: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return the keys of an engine by the names of their files; those of the pool for the id `""`.

        made: those to keep where there are none; of two at once the first count. Raises NotFound for an engine that is gone.
        """
        query = "INSERT INTO keys (engine, name, content) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        with self.transaction() as connection:
            if id_:
                require_engine(connection, id_)
            for name, content in made.items():
                connection.execute(query, (id_, name, content))
            found = connection.execute("SELECT name, content FROM keys WHERE engine = %s", (id_,)).fetchall()
            return {row[0]: row[1] for row in found}

    def replace_keys(self, id_: str, brought: Mapping[str, bytes]) -> None:
        """Keep the keys of an engine that came from a backup, and no others."""
        with self.transaction() as connection, connection.cursor() as cursor:
            require_engine(connection, id_)
            cursor.execute("DELETE FROM keys WHERE engine = %s", (id_,))
            rows = [(id_, name, content) for name, content in brought.items()]
            cursor.executemany("INSERT INTO keys (engine, name, content) VALUES (%s, %s, %s)", rows)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A short transaction on the connection that is kept, one at a time."""
        with self._connection() as connection, connection.transaction():
            connection.execute(_LIMITS)
            yield connection

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """The connection that is kept, for one at a time."""
        with self._lock, _understood():
            if self._kept is None or self._kept.closed:
                self._kept = connect(self._url)
            try:
                yield self._kept
            except BaseException:
                self._kept.close()  # whatever it was: the next one begins with a connection in a known state
                self._kept = None
                raise

    def asked(self, query: LiteralString, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that changes nothing, with its limits in one round trip."""
        with self._connection() as connection:
            with connection.pipeline(), connection.transaction():
                connection.execute(_LIMITS)
                found = connection.execute(query, values)
            return found.fetchall()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that changes records."""
        with self.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_WRITING,))
            yield connection

    @contextmanager
    def apart(self) -> Iterator[Connection]:
        """A transaction that takes longer, on a connection of its own."""
        with _understood(), connect(self._url) as connection:
            connection.execute(_LIMITS)
            yield connection

    @contextmanager
    def turn(self, id_: str) -> Iterator[None]:
        """Keep all replicas from a command about the move of an engine, for as long as this one takes."""
        with self.apart() as connection:
            # It may take long, and nobody has a statement for this connection before it ends.
            connection.execute("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"move {id_}",))
            yield


def connect(url: str, **options: Any) -> Connection:
    """Return a connection to the database of a pool. options: of psycopg. Raises psycopg.Error."""
    import psycopg

    return psycopg.connect(url, connect_timeout=CONNECT_S, client_encoding="UTF8", **ALIVE, **options)


def unreachable(error: psycopg.Error) -> Halt:
    """Return the verdict for an error of the server. Tenants read the message: it names no server."""
    told = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
    return Halt(Transient("PoolServerUnreachable", f"the database of the pool is not available{told}"))


@contextmanager
def _understood() -> Iterator[None]:
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        log.error("the database of the pool is not available", error=" ".join(str(error).split()))
        raise unreachable(error) from error


def put_blob(connection: Connection, name: str, source: BinaryIO) -> None:
    """Keep bytes by a name, in parts. Idempotent: another copy replaces them."""
    connection.execute("DELETE FROM blobs WHERE name = %s", (name,))
    part = 0
    while content := source.read(PART):
        connection.execute("INSERT INTO blobs (name, part, content) VALUES (%s, %s, %s)", (name, part, content))
        part += 1


def read_blob(connection: Connection, name: str, target: BinaryIO) -> bool:
    """Write bytes of that name. Return False if there are none."""
    part = 0
    while row := connection.execute("SELECT content FROM blobs WHERE name = %s AND part = %s", (name, part)).fetchone():
        target.write(row[0])
        part += 1
    return part > 0


def require_engine(connection: Connection, id_: str) -> None:
    """Keep the engine with that id until the end of the transaction. Raises NotFound."""
    query = "SELECT 1 FROM engines WHERE id = %s AND body IS NOT NULL FOR SHARE"
    if connection.execute(query, (id_,)).fetchone() is None:
        raise NotFound(f"no engine with the id {id_} is in this pool")


def remove_unused(connection: Connection) -> None:
    """Remove the packages that no engine has any more; none while one is brought, which may be one of them."""
    if connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (PACKAGES,)).fetchone() != (True,):
        return
    connection.execute(
        "DELETE FROM blobs WHERE name LIKE 'package/%' AND NOT EXISTS"
        " (SELECT 1 FROM packages WHERE blobs.name = 'package/' || packages.sha256)"
    )
