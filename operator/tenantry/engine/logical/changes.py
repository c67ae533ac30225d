"""A logical copy of an engine that moves, and later only the rows that changed since, while nobody may write.

Nothing is added to the engine's database for it, and no write is slower. See moments.py for how a change is seen.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import psycopg
from psycopg import sql

from tenantry.engine.logical.catalog import CatalogTable, Tables, names, tables
from tenantry.engine.logical.dump import DIGESTS, TABLES, all_rows, members, rows_of, write
from tenantry.engine.logical.moments import (
    CHANGED,
    MOMENT,
    PAGE,
    CopyMoment,
    Counted,
    EarlierCopy,
    TableChanges,
    TableFacts,
    changes,
    kept_of,
    places_of,
)
from tenantry.engine.logical.session import keep_migrations_out, session

if TYPE_CHECKING:
    from tenantry.engine.logical.session import Connection

SMALLEST = 32
RANGES = 2048
"""Pages that are counted together, and how many such ranges a large table has: each costs a query of its own."""
_BY_RANGES = 140000
"""The version of servers that read a range of pages without reading the others."""
_ALL_PAGES = (1 << 32) - 1
_XIDS = 1 << 32
_NOT_HERE = ("42501", "0A000", "42883", "55000")
"""SQLSTATEs of a server that does not say which it is: it forbids that, or is another product."""
_SERVER = """
SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    extract(epoch FROM pg_postmaster_start_time()), (SELECT oid FROM pg_database WHERE datname = current_database())),
    pg_logical_emit_message(true, 'tenantry', 'move')
"""
"""A server that was set back to a copy of its files gives numbers again. It was started since, and has the same timeline if it
went on without an archive of its log."""
_DURABLE = "SELECT pg_logical_emit_message(true, 'tenantry', 'move')"
"""Its commit writes to the disk whatever was committed before it, also by who does not wait for that. A server that crashes would
give the numbers of lost transactions again."""
_SNAPSHOT = "SELECT pg_snapshot_xmin(seen)::text, pg_snapshot_xmax(seen)::text FROM pg_current_snapshot() AS seen"
_FACTS = """
SELECT c.relname, c.oid::bigint, coalesce(pg_relation_filenode(c.oid), 0)::bigint,
    ARRAY(SELECT a.attnum || ' ' || a.attname FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
    ARRAY(SELECT a.attname::text FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, at)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
        WHERE i.indrelid = c.oid AND i.indisprimary ORDER BY k.at),
    pg_relation_size(c.oid) / current_setting('block_size')::bigint
FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%s)
"""
_COUNTS = """
SELECT part.at, counted.old, counted.new
FROM (SELECT pg_relation_size({name}::regclass) / current_setting('block_size')::bigint AS pages) AS whole
CROSS JOIN generate_series(0, whole.pages / {width}) AS part (at)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE age(xmin) > {age}) AS old, count(*) FILTER (WHERE age(xmin) <= {age}) AS new FROM {table}
    WHERE ctid >= ('(' || part.at * {width} || ',0)')::tid AND ctid < ('(' || (part.at + 1) * {width} || ',0)')::tid
) AS counted
WHERE counted.old > 0 OR counted.new > 0
"""
_PLACE = sql.SQL("((ctid::text::point)[0]::bigint * {page} + (ctid::text::point)[1]::bigint)").format(page=PAGE)


def dump_to_move(url: str, scratch: Path, earlier: bytes = b"", *, named: bool = True) -> Generator[str]:
    """Write one member after the other to that file, replacing the last one, and yield its name. Blocks.

    earlier: of the copy that the new place has, `b""` for none. The members are those of `dump` with the places of rows, or only
    the changes. A server that does not say which it is gives a copy without places, so the next one has all rows again. Raises
    as `dump`.
    """
    with session(url, named=named) as connection:
        keep_migrations_out(connection)
        server, there = _server(connection), names(connection)
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with connection.transaction():
            if not server or not there:
                yield from members(connection, scratch)
                return
            # Before the snapshot: from then on no table is truncated or rewritten, which a snapshot does not show.
            locked = sql.SQL(", ").join(map(sql.Identifier, there))
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(locked))
            moment = yield from _copy(connection, scratch, server, EarlierCopy.parse(earlier))
        connection.execute(_DURABLE)
        write(scratch, [moment.model_dump_json().encode()])
        yield MOMENT


def _server(connection: Connection) -> str:
    try:
        row = connection.execute(_SERVER).fetchone()
    except psycopg.Error as error:
        if error.sqlstate in _NOT_HERE:
            return ""
        raise
    return str(row[0]) if row is not None else ""


def _copy(connection: Connection, scratch: Path, server: str, earlier: EarlierCopy | None) -> Generator[str, None, CopyMoment]:
    described = tables(connection)
    xid, next_xid = map(int, _row(connection, _SNAPSHOT))
    moment = CopyMoment(
        id=secrets.token_hex(16), server=server, xid=xid, shape=_shape(described), tables=_facts(connection, described)
    )
    if earlier is not None and earlier.precedes(moment, next_xid):
        age = _age(connection, earlier.moment.xid)
        return (yield from _Changes(connection, scratch, described, moment, earlier, age).write())
    yield from members(connection, scratch)
    for table in described.tables:
        if moment.tables[table.name].key:
            write(scratch, _copied(connection, _places(connection, table, moment)))
            yield places_of(table.name)
    return moment


@dataclass(frozen=True)
class _Changes:
    """The members with what changed since an earlier copy. tables: all of them, as they are now. age: of that copy."""

    connection: Connection
    scratch: Path
    tables: Tables
    moment: CopyMoment
    earlier: EarlierCopy
    age: sql.Literal

    def write(self) -> Generator[str, None, CopyMoment]:
        found = {table.name: self._found(table) for table in self.tables.tables}
        digests = {TABLES: write(self.scratch, [self.tables.model_dump_json().encode()])}
        yield CHANGED + TABLES
        for table in self.tables.tables:
            digests[rows_of(table.name)] = write(self.scratch, self._rows(table, found[table.name]))
            yield CHANGED + rows_of(table.name)
        write(self.scratch, [orjson.dumps(digests)])
        yield CHANGED + DIGESTS
        for table in self.tables.tables:
            yield from self._beside(table, found[table.name])
        lost = {name: each.lost for name, each in found.items() if each is not None and each.lost}
        return self.moment.model_copy(
            update={
                "since": self.earlier.moment.id,
                "whole": tuple(name for name, each in found.items() if each is None),
                "lost": {name: tuple(self._places_of(name, run) for run in each) for name, each in lost.items()},
                # The rows that were counted in ranges stay in them.
                "tables": {name: self._kept_width(name, facts) for name, facts in self.moment.tables.items()},
            }
        )

    def _found(self, table: CatalogTable) -> TableChanges | None:
        then, now = self._then(table.name), self.moment.tables[table.name]
        if not then.is_stored_as(now):
            return None
        name = sql.Literal(sql.Identifier(table.name).as_string(self.connection))
        query = sql.SQL(_COUNTS).format(name=name, table=sql.Identifier(table.name), width=then.width, age=self.age)
        counted = {at: Counted(old, new) for at, old, new in self.connection.execute(query)}
        return changes(self.earlier.counts.get(table.name, {}), counted)

    def _rows(self, table: CatalogTable, found: TableChanges | None) -> Iterator[bytes | bytearray | memoryview]:
        if found is None:
            yield from all_rows(self.connection, table)
            return
        columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
        for run in found.fresh:
            yield from _copied(self.connection, self._query(columns, table.name, run, "<="))

    def _beside(self, table: CatalogTable, found: TableChanges | None) -> Generator[str]:
        """Write the places of the rows that are sent, and of those that are still there beside others that are gone."""
        if not self.moment.tables[table.name].key:
            return
        if found is None:
            queries = [_places(self.connection, table, self.moment)]
        else:
            columns = _place_columns(self.connection, table, self.moment)
            queries = [self._query(columns, table.name, run, "<=") for run in found.fresh]
        write(self.scratch, (block for query in queries for block in _copied(self.connection, query)))
        yield places_of(table.name)
        if found is not None and found.lost:
            queries = [self._query(_PLACE, table.name, run, ">") for run in found.lost]
            write(self.scratch, (block for query in queries for block in _copied(self.connection, query)))
            yield kept_of(table.name)

    def _query(self, columns: sql.Composable, table: str, run: tuple[int, int], compared: str) -> sql.Composed:
        """compared: of the age of a row with that of the earlier copy, `<=` for new rows."""
        first, after = (sql.Literal(f"({page},0)") for page in self._pages(table, run))
        where = sql.SQL("ctid >= {}::tid AND ctid < {}::tid AND age(xmin) " + compared + " {}").format(first, after, self.age)
        return sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT").format(columns, sql.Identifier(table), where)

    def _then(self, table: str) -> TableFacts:
        return self.earlier.moment.tables[table]

    def _pages(self, table: str, run: tuple[int, int]) -> tuple[int, int]:
        """The pages of ranges: the first, and the one after the last."""
        width = self._then(table).width
        return run[0] * width, run[1] * width

    def _places_of(self, table: str, run: tuple[int, int]) -> tuple[int, int]:
        first, after = self._pages(table, run)
        return first * PAGE, after * PAGE - 1

    def _kept_width(self, table: str, facts: TableFacts) -> TableFacts:
        return facts.model_copy(update={"width": self._then(table).width})


def _shape(described: Tables) -> str:
    """The digest of the tables but for how far their generated keys are."""
    told = described.model_dump()
    for table in told["tables"]:
        table["sequences"] = [{**each, "last": 0, "called": False} for each in table["sequences"]]
    return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _facts(connection: Connection, described: Tables) -> Mapping[str, TableFacts]:
    by_ranges = connection.info.server_version >= _BY_RANGES
    found = connection.execute(_FACTS, ([table.name for table in described.tables],))
    return {
        name: TableFacts(
            oid=oid, file=file, columns=columns, key=key, width=max(SMALLEST, -(-pages // RANGES)) if by_ranges else _ALL_PAGES
        )
        for name, oid, file, columns, key, pages in found
    }


def _places(connection: Connection, table: CatalogTable, moment: CopyMoment) -> sql.Composed:
    columns = _place_columns(connection, table, moment)
    return sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(columns, sql.Identifier(table.name))


def _place_columns(connection: Connection, table: CatalogTable, moment: CopyMoment) -> sql.Composed:
    """Place, whether the row may be younger than the moment, and key."""
    late = sql.SQL("age(xmin) <= {}").format(_age(connection, moment.xid))
    return sql.SQL(", ").join((_PLACE, late, *map(sql.Identifier, moment.tables[table.name].key)))


def _age(connection: Connection, xid: int) -> sql.Literal:
    """Transactions since that number, as `age` counts them for a row of the same transaction."""
    (age,) = _row(connection, "SELECT age(%s::text::xid)", str(xid % _XIDS))
    return sql.Literal(int(age))


def _copied(connection: Connection, query: sql.Composed) -> Iterator[bytes | bytearray | memoryview]:
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        yield from copy


def _row(connection: Connection, query: str, *values: str) -> Iterable[str]:
    row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    return row
