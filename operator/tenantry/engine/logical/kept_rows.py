"""The places of the rows of a copy, in the database on PostgreSQL that it fills: which row a change at the old place is about.

These tables go when the engine takes the copy, in the same transaction, and with the rows when another copy takes their place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg import sql

from tenantry.engine.logical.copies import Member, blocks_if_any, moment_in
from tenantry.engine.logical.moments import PAGE, CopyMoment, EarlierCopy, FileMoment, moment_of, places_of, stale

if TYPE_CHECKING:
    from tenantry.engine.logical.session import Connection

_MOMENT = "_tenantry_moment"
_PLACES = "_tenantry_places_"
_OURS = """
SELECT relname FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND (relname = %s OR starts_with(relname, %s))
"""
_REFERENCES = """
SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'f' AND connamespace = current_schema()::regnamespace ORDER BY 1, 2
"""


class KeptRows:
    """The tables with the places. connection: in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def moment(self) -> CopyMoment | FileMoment | None:
        """The moment of the copy, None if no places are kept."""
        if _MOMENT not in _there(self._connection):
            return None
        row = self._connection.execute(sql.SQL("SELECT content FROM {}").format(sql.Identifier(_MOMENT))).fetchone()
        return None if row is None else moment_of(row[0])

    def earlier(self) -> bytes:
        """Return what the old place must know of the copy, packed; `b""` for nothing."""
        moment = self.moment
        if not isinstance(moment, CopyMoment):
            return b"" if moment is None else moment.packed()
        counts = {name: self._counts(name, facts.width) for name, facts in moment.tables.items() if facts.key}
        return EarlierCopy(moment=moment, counts=counts).packed()

    def make(self, table: str, key: Sequence[str]) -> None:
        """Make the table for the places of another."""
        columns: list[sql.Composable] = [sql.SQL("0::bigint AS place"), sql.SQL("false AS late")]
        columns += [sql.SQL("{} AS {}").format(sql.Identifier(name), _key(at)) for at, name in enumerate(key)]
        statement = sql.SQL("CREATE TABLE {} AS SELECT {} FROM {} WITH NO DATA")
        self._do(statement, _places(table), sql.SQL(", ").join(columns), sql.Identifier(table))
        self._do(sql.SQL("CREATE INDEX ON {} (place)"), _places(table))
        self._do(sql.SQL("CREATE INDEX ON {} (place) WHERE late"), _places(table))

    def add(self, table: str, lines: Iterable[bytes]) -> int:
        """Add a member with places, in blocks. Return how many they are."""
        with self._connection.cursor() as cursor:
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(_places(table))) as copy:
                for block in lines:
                    copy.write(block)
            return cursor.rowcount

    def add_rows(self, table: str, rows: Iterable[Sequence[Any]]) -> int:
        """The same with rows of place and key, of which none is late."""
        with self._connection.cursor() as cursor:
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(_places(table))) as copy:
                for place, *key in rows:
                    copy.write_row((place, "f", *key))
            return cursor.rowcount

    def remove(self, table: str, key: Sequence[str], lost: Sequence[tuple[int, int]], kept: Iterable[bytes] = ()) -> None:
        """Delete the rows of a table that are gone or changed, with their places. Raises a Transient Halt (MoveStale).

        lost: in these places (first and last) only those of the member `kept` are left.
        """
        places, columns = _places(table), sql.SQL(", ").join(_key(at) for at in range(len(key)))
        self._do(sql.SQL("CREATE TEMPORARY TABLE kept (place bigint PRIMARY KEY) ON COMMIT DROP"))
        self._do(sql.SQL("CREATE TEMPORARY TABLE gone ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"), columns, places)
        with self._connection.cursor() as cursor, cursor.copy("COPY kept FROM STDIN") as copy:
            for block in kept:
                copy.write(block)
        taken = sql.SQL("WITH taken AS (DELETE FROM {} AS it WHERE {} RETURNING {}) INSERT INTO gone SELECT * FROM taken")
        gone = self._do(taken, places, sql.SQL("late"), columns)
        for first, last in lost:
            among = sql.SQL("place BETWEEN {} AND {} AND NOT EXISTS (SELECT FROM kept WHERE kept.place = it.place)")
            gone += self._do(taken, places, among.format(first, last), columns)
        self._do(sql.SQL("ANALYZE gone"))  # or all rows of the table would be read for a few that go
        same = sql.SQL(" AND ").join(
            sql.SQL("it.{} = gone.{}").format(sql.Identifier(name), _key(at)) for at, name in enumerate(key)
        )
        deleted = self._do(sql.SQL("DELETE FROM {} AS it USING gone WHERE {}"), sql.Identifier(table), same)
        self._do(sql.SQL("DROP TABLE kept, gone"))
        if deleted != gone:
            raise stale(f"have rows of {table} that are not here")

    def clear(self, table: str) -> None:
        """Delete all rows of a table, with their places."""
        self._do(sql.SQL("DELETE FROM {}"), sql.Identifier(table))
        if _name(table) in _there(self._connection):
            self._do(sql.SQL("DELETE FROM {}"), _places(table))

    def end(self, moment: CopyMoment | FileMoment) -> None:
        """Note the moment of the copy."""
        self._do(sql.SQL("CREATE TABLE IF NOT EXISTS {} (content text NOT NULL)"), sql.Identifier(_MOMENT))
        self._do(sql.SQL("DELETE FROM {}"), sql.Identifier(_MOMENT))
        content = sql.Literal(moment.model_dump_json())
        self._do(sql.SQL("INSERT INTO {} VALUES ({})"), sql.Identifier(_MOMENT), content)

    def _counts(self, table: str, width: int) -> dict[int, int]:
        query = sql.SQL("SELECT place / {}, count(*) FROM {} WHERE NOT late GROUP BY 1").format(width * PAGE, _places(table))
        return dict(self._connection.execute(query).fetchall())

    def _do(self, statement: sql.SQL, *parts: sql.Composable) -> int:
        return self._connection.execute(statement.format(*parts)).rowcount


def keep_places(connection: Connection, member: Member) -> None:
    """Keep the places of the rows of a copy that was filled in, if it has them. Raises Invalid."""
    if (moment := moment_in(member)) is None:
        return
    kept = KeptRows(connection)
    for name, facts in moment.tables.items():
        if facts.key:
            kept.make(name, facts.key)
            kept.add(name, blocks_if_any(member, places_of(name)))
    kept.end(moment)


def forget(connection: Connection) -> None:
    """Drop the places. Idempotent."""
    if there := _there(connection):
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(map(sql.Identifier, there))))


@contextmanager
def without_references(connection: Connection) -> Iterator[None]:
    """Let rows go and come in any order. The foreign keys hold again at the end. Raises psycopg.Error if they do not."""
    found = connection.execute(_REFERENCES).fetchall()
    for table, name, _ in found:
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}".encode())
    yield
    for table, name, definition in found:
        connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}".encode())


def _there(connection: Connection) -> list[str]:
    return [name for (name,) in connection.execute(_OURS, (_MOMENT, _PLACES))]


def _name(table: str) -> str:
    return _PLACES + hashlib.blake2s(table.encode(), digest_size=8).hexdigest()


def _places(table: str) -> sql.Identifier:
    return sql.Identifier(_name(table))


def _key(at: int) -> sql.Identifier:
    return sql.Identifier(f"k{at}")
