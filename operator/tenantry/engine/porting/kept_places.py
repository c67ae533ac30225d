"""The places of the rows of a copy, beside the SQLite file that was made of it: which row a change on the server is about."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from tenantry.engine.database import halt_of
from tenantry.engine.logical.copies import lines
from tenantry.engine.logical.moments import PAGE, CopyMoment, EarlierCopy

_SCHEMA = """
CREATE TABLE IF NOT EXISTS moment (content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS places (
    tbl TEXT NOT NULL, place INTEGER NOT NULL, late INTEGER NOT NULL, key BLOB NOT NULL, PRIMARY KEY (tbl, place)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS late ON places (tbl) WHERE late;
CREATE TEMPORARY TABLE kept (place INTEGER PRIMARY KEY);
"""
_LATE = "FROM places WHERE tbl = ? AND late"
_GONE = """
FROM places WHERE tbl = ? AND place BETWEEN ? AND ? AND NOT EXISTS (SELECT 1 FROM kept WHERE kept.place = places.place)
"""


class KeptPlaces:
    """The file. Its calls block, and raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def earlier(self) -> EarlierCopy | None:
        """Return the copy as the old place must know it, None if it is not whole."""
        row = self._connection.execute("SELECT content FROM moment").fetchone()
        if row is None:
            return None
        moment = CopyMoment.model_validate_json(row[0])
        query = "SELECT place / ?, count(*) FROM places WHERE tbl = ? AND NOT late GROUP BY 1"
        counts = {
            name: dict(self._connection.execute(query, (facts.width * PAGE, name))) for name, facts in moment.tables.items()
        }
        return EarlierCopy(moment=moment, counts=counts)

    def add(self, table: str, blocks: Iterable[bytes]) -> int:
        """Add the lines of a member with places, and return how many they are."""
        rows = ((table, int(place), late == b"t", key) for place, late, key in (line.split(b"\t", 2) for line in lines(blocks)))
        return self._connection.executemany("INSERT INTO places VALUES (?, ?, ?, ?)", rows).rowcount

    def remove(self, table: str, lost: Sequence[tuple[int, int]], kept: Iterable[bytes]) -> list[bytes]:
        """Remove the places of rows that are gone or changed, and return their keys as COPY spells them.

        lost: in these ranges only those of the member `kept` are left.
        """
        self._connection.execute("DELETE FROM kept")
        self._connection.executemany("INSERT INTO kept VALUES (?)", ((int(line),) for line in lines(kept)))
        return [*self._taken(_LATE, table), *(key for run in lost for key in self._taken(_GONE, table, *run))]

    def _taken(self, which: str, *about: str | int) -> list[bytes]:
        keys = [key for (key,) in self._connection.execute(f"SELECT key {which}", about)]
        self._connection.execute(f"DELETE {which}", about)
        return keys

    def clear(self, table: str) -> None:
        """Remove all places of a table."""
        self._connection.execute("DELETE FROM places WHERE tbl = ?", (table,))

    def end(self, moment: CopyMoment) -> None:
        """Note the moment of the copy. All counts from here on."""
        self._connection.execute("DELETE FROM moment")
        self._connection.execute("INSERT INTO moment VALUES (?)", (moment.model_dump_json(),))
        self._connection.execute("COMMIT")


@contextmanager
def kept_places(file: Path) -> Iterator[KeptPlaces]:
    """The places in that file, in one transaction. Raises Halt, such as DiskUnwritable, and Invalid for a broken file."""
    try:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            # A file that was not written to its end is removed, and a whole one is made durable by who keeps it.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(_SCHEMA)
            connection.execute("BEGIN")
            yield KeptPlaces(connection)
    except sqlite3.Error as error:
        raise halt_of(DBAPIError(None, None, error)) from error
