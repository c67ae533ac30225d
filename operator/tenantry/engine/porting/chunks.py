"""The rows of a SQLite file in chunks, each with its digest. They show the old place which rows a server does not have yet."""

from __future__ import annotations

import hashlib
import marshal
import re
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tenantry.engine import records
from tenantry.engine.logical.moments import FileMoment
from tenantry.engine.porting.sources import comes_along, quoted
from tenantry.engine.sql.limits import bound

EACH = 64
"""Rows of a chunk at least."""
MOST = 1 << 15
"""Chunks of a file, about: their digests are sent with the request for the changes."""
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1
_ALWAYS = (records.VERSIONS.name, records.INSTALLED.name)
"""All rows of these are sent: they say which packages made the tables."""
_TABLES = "SELECT name, sql FROM {of}.sqlite_master WHERE type = 'table' ORDER BY name"
_COLUMNS = "SELECT name, type FROM pragma_table_info(?, ?) ORDER BY cid"
_TYPE = re.compile(r"\w+( \w+)*(\([\d, ]+\))?")
Chunk = tuple[int, str]


def moment_of_file(connection: sqlite3.Connection) -> FileMoment | None:
    """Return the state of a file that nobody writes, None for tables that no release makes."""
    tables = _tables(connection, "main")
    types = (type_ for name in tables for _, type_ in connection.execute(_COLUMNS, (name, "main")))
    if any("WITHOUT ROWID" in made.upper() for made in tables.values()) or not all(map(_TYPE.fullmatch, types)):
        return None
    counts = (connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0] for name in tables)  # noqa: S608 - quoted
    each = max(EACH, sum(counts) // MOST)
    chunks = {name: tuple(_chunks(connection, f"main.{quoted(name)}", (_FIRST, _LAST), each)) for name in tables}
    return FileMoment(id=secrets.token_hex(16), shape=_shape(tables), each=each, chunks=chunks)


def write_changes(file: Path, earlier: FileMoment, target: Path) -> FileMoment | None:
    """Write the rows that are not those of an earlier copy to another SQLite file, in tables without constraints.

    Return the moment of the changes, None if the tables are others. Blocks. Raises sqlite3.Error.
    """
    with closing(bound(sqlite3.connect(target, isolation_level=None, uri=True))) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # it is read once, by this process
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("ATTACH ? AS there", (f"{file.absolute().as_uri()}?mode=rw",))
        connection.execute("BEGIN")
        tables = _tables(connection, "there")
        if _shape(tables) != earlier.shape:
            return None
        changed = {name: _copied(connection, name, earlier.chunks[name], earlier.each) for name in tables}
        sequences = dict(connection.execute("SELECT name, seq FROM there.sqlite_sequence")) if _has_sequences(connection) else {}
        connection.execute("COMMIT")
    return FileMoment(
        id=secrets.token_hex(16),
        shape=earlier.shape,
        each=earlier.each,
        since=earlier.id,
        chunks={name: chunks for name, (chunks, _) in changed.items()},
        lost={name: lost for name, (_, lost) in changed.items() if lost},
        sequences=sequences,
    )


def _copied(
    connection: sqlite3.Connection, name: str, earlier: Sequence[Chunk], each: int
) -> tuple[tuple[Chunk, ...], tuple[tuple[int, int], ...]]:
    """Copy the chunks of a table that changed. Return its chunks, and the row ids (first and last) of those that changed."""
    there, here = f"there.{quoted(name)}", f"main.{quoted(name)}"
    columns = connection.execute(_COLUMNS, (name, "there")).fetchall()
    connection.execute(f"CREATE TABLE {here} ({', '.join(f'{quoted(column)} {type_}' for column, type_ in columns)})")
    listed = ", ".join(("_rowid_", *(quoted(column) for column, _ in columns)))
    chunks: list[Chunk] = []
    lost: list[tuple[int, int]] = []
    for (first, digest), last in zip(earlier, _lasts(earlier), strict=True):
        rows = connection.execute(f"SELECT _rowid_, * FROM {there} WHERE _rowid_ BETWEEN ? AND ?", (first, last))  # noqa: S608
        if name not in _ALWAYS and _digest(rows.fetchall()) == digest:
            chunks.append((first, digest))
            continue
        among = f"INSERT INTO {here} ({listed}) SELECT {listed} FROM {there} WHERE _rowid_ BETWEEN ? AND ?"  # noqa: S608 - quoted
        connection.execute(among, (first, last))
        chunks += _chunks(connection, there, (first, last), each)
        lost.append((first, last))
    return tuple(chunks), tuple(lost)


def _chunks(connection: sqlite3.Connection, table: str, within: tuple[int, int], each: int) -> Iterator[Chunk]:
    """The chunks of the rows in those row ids (first and last), at least one."""
    rows = connection.execute(f"SELECT _rowid_, * FROM {table} WHERE _rowid_ BETWEEN ? AND ? ORDER BY 1", within)  # noqa: S608
    first, found = within[0], rows.fetchmany(each)
    yield first, _digest(found)
    while found := rows.fetchmany(each):
        yield found[0][0], _digest(found)


def _lasts(chunks: Sequence[Chunk]) -> list[int]:
    return [*(first - 1 for first, _ in chunks[1:]), _LAST]


def _digest(rows: list[tuple[Any, ...]]) -> str:
    # Version 2 spells equal values alike; later ones also say which objects are the same.
    return hashlib.sha256(marshal.dumps(sorted(rows, key=_row_id), 2)).hexdigest()[:32]


def _row_id(row: tuple[Any, ...]) -> Any:
    return row[0]


def _tables(connection: sqlite3.Connection, of: str) -> Mapping[str, str]:
    found = connection.execute(_TABLES.format(of=of))
    return {name: made for name, made in found if comes_along(name)}


def _shape(tables: Mapping[str, str]) -> str:
    return hashlib.sha256(repr(sorted(tables.items())).encode()).hexdigest()


def _has_sequences(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM there.sqlite_master WHERE name = 'sqlite_sequence'").fetchone() is not None
