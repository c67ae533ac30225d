"""The tables of an engine in a copy that is read: a SQLite file, or a logical copy of a database on PostgreSQL."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.engine.interfaces import Dialect

from tenantry.engine.data.live.triggers import NAMES as LOG
from tenantry.engine.inventory import is_of_an_engine
from tenantry.engine.logical.copies import LogicalCopy, lines
from tenantry.engine.porting.values import spelling
from tenantry.engine.records import OWNER
from tenantry.engine.sql.limits import bound
from tenantry.model.verdicts import Invalid, Problem

Row = tuple[str | None, ...]
"""The values of a row as COPY spells them, None for NULL."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NULL = "\\N"


class PortedTables(Protocol):
    """The tables of one engine. Blocks; its calls raise Invalid for a copy that is broken."""

    dialect: Dialect
    """The dialect of the database."""

    @property
    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """The columns of each table with their types, without those of the owner's mark and of the log of changes."""

    def rows(self, table: sa.Table, columns: Sequence[str]) -> Iterator[Row]:
        """The rows of a table, in any order. columns: in which order their values come."""

    def last_key(self, table: str) -> int | None:
        """The last key that was made for a table, None where none was."""


class FileTables:
    """PortedTables of a SQLite file that nobody writes."""

    dialect: Dialect = SQLiteDialect()

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        query = """
            SELECT found.name, part.name, part.type FROM sqlite_master AS found, pragma_table_info(found.name) AS part
            WHERE found.type = 'table' ORDER BY found.name, part.cid
        """
        self.columns: dict[str, dict[str, str]] = {}
        for table, column, type_ in connection.execute(query):
            if comes_along(table):
                self.columns.setdefault(table, {})[column] = type_

    def rows(self, table: sa.Table, columns: Sequence[str]) -> Iterator[Row]:
        spelled = [spelling(table.c[name].type).text for name in columns]
        listed = ", ".join(map(quoted, columns))
        for row in self._connection.execute(f"SELECT {listed} FROM {quoted(table.name)}"):  # noqa: S608 - quoted
            yield tuple(None if value is None else spell(value) for spell, value in zip(spelled, row, strict=True))

    def places(self, table: sa.Table) -> Iterator[tuple[int, *Row]]:
        """The row id of each row of a table, and its primary key."""
        key = list(table.primary_key.columns)
        spelled = [spelling(column.type).text for column in key]
        listed = ", ".join(("_rowid_", *(quoted(column.name) for column in key)))
        for place, *values in self._connection.execute(f"SELECT {listed} FROM {quoted(table.name)}"):  # noqa: S608 - quoted
            yield place, *(spell(value) for spell, value in zip(spelled, values, strict=True))

    def count(self, table: str) -> int:
        """Return the number of a table's rows."""
        return int(self._connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone()[0])  # noqa: S608 - quoted

    def last_key(self, table: str) -> int | None:
        if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone():
            return None
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return None if row is None else int(row[0])


class CopiedTables:
    """PortedTables of a logical copy."""

    dialect: Dialect = PGDialect()  # type: ignore[no-untyped-call]

    def __init__(self, copy: LogicalCopy) -> None:
        self._copy = copy
        self._sequences = {table.name: table.sequences for table in copy.tables.tables}
        self.columns = {table.name: {column.name: column.type for column in table.columns} for table in copy.tables.tables}

    def rows(self, table: sa.Table, columns: Sequence[str]) -> Iterator[Row]:
        there = list(self.columns[table.name])
        order = [there.index(name) for name in columns]
        for line in lines(self._copy.rows(table.name)):
            values = fields(line)
            yield tuple(values[at] for at in order)

    def last_key(self, table: str) -> int | None:
        made = [sequence.last for sequence in self._sequences[table] if sequence.called]
        return max(made, default=None)


@contextmanager
def file_tables(file: Path) -> Iterator[FileTables]:
    """The tables of that file. Raises Invalid unless it is a whole SQLite database."""
    with opened(file) as connection:
        yield FileTables(connection)


@contextmanager
def opened(file: Path) -> Iterator[sqlite3.Connection]:
    """A SQLite file that is only read. Raises Invalid unless it is a whole database."""
    try:
        with closing(bound(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True))) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        raise Invalid((Problem(file.name, f"cannot be read: {error}"),)) from error


def fields(line: bytes) -> Row:
    """Return the values in a line of a text that COPY made."""
    return tuple(None if field == _NULL else _unescaped(field) for field in line.decode().split("\t"))


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), field) if "\\" in field else field


def comes_along(table: str) -> bool:
    """Return False for tables of others, the mark of the owner, and the log of changes."""
    return is_of_an_engine(table) and table not in (OWNER.name, *LOG)


def quoted(name: str) -> str:
    """Return a name as SQL spells it."""
    return '"' + name.replace('"', '""') + '"'
