"""Rows of one table on one connection, read: pages of lists, and single rows."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.query import ListQuery, shape_of, statement, token_after
from tenantry.engine.data.reading.counting import count
from tenantry.engine.data.reading.embedding import reader_of, related_rows
from tenantry.engine.data.reading.formats import JSON, Format
from tenantry.engine.data.reading.pages import is_written, may_be_short, spelled_end, spelled_page
from tenantry.engine.data.reading.selection import Embedded, Selection
from tenantry.engine.data.values import Reader as Converter
from tenantry.engine.data.values import from_text, json_readers, row_of
from tenantry.engine.sql.driver import Reading, ShortRead
from tenantry.engine.sql.quick.replay import Replay
from tenantry.engine.sql.short_reads import LARGEST_PAGE, NotShort, NotWritten
from tenantry.engine.sql.spelled import FETCHED, Spelled, Values, kept, spell
from tenantry.model.verdicts import NotFound
from tenantry.rest.bodies import invalid

PAGE_BYTES = 8 << 20
"""Bytes after which a page ends; it has at least one row."""
BY_KEY: tuple[str, tuple[Embedded, ...]] = ("by key", ())
"""The name of the statement of a row, and its related rows: none."""
Row = dict[str, Any]
Shown = list[tuple[int, str, Converter]]


@dataclass(frozen=True)
class RowPage:
    """A page, as it is sent. after: the `continue` token of the next, `""` on the last."""

    body: bytes
    after: str


@dataclass(frozen=True)
class Tagged:
    """A row as JSON. tag: its ETag, of all its columns, whichever are shown, and of the related rows that are shown."""

    row: Row
    tag: str


class Reader:
    """The rows of one table of an installed app."""

    def __init__(self, connection: Reading, exposed: Exposed) -> None:
        self._connection = connection
        self._exposed = exposed

    def page(self, query: ListQuery, form: Format = JSON, most_bytes: int = PAGE_BYTES) -> RowPage:
        """One page. most_bytes: it ends early, but not before its first row, once it has so many.

        Raises Invalid for a filter that does not fit.
        """
        if isinstance(self._connection, ShortRead):
            return self._written(self._connection, query, form)
        if may_be_short(query) and self._connection.dialect.name == "sqlite":
            self._written_by(query, self._connection.dialect)  # for the next of its kind: to compile takes long
        spelled, values = self._list(query)
        names = query.select.names
        parts: list[bytes] = []
        size, last = 0, None
        with spelled.run(self._connection, values, some=True) as result:
            readers = spelled.readers(result, self._connection.dialect)
            shown = self._shown(query.select, readers)
            while rows := result.fetchmany(FETCHED):
                for row in rows:
                    if len(parts) == query.limit or size >= most_bytes:
                        assert last is not None
                        return RowPage(form.whole(names, parts, first=not query.after), self._token(query, last, readers))
                    parts.append(form.row(row_of(names, row, shown)))
                    size += len(parts[-1])
                    last = row
        return RowPage(form.whole(names, parts, first=not query.after), "")

    def _written_by(self, query: ListQuery, dialect: Dialect) -> None:
        """Compile the statements of `_written`."""
        if is_written(self._exposed, query):
            self._kept((dialect.name, "page", query), lambda: spelled_page(self._exposed, query, dialect))
            self._kept((dialect.name, "end", query), lambda: spelled_end(self._exposed, query, dialect))

    def _written(self, read: ShortRead, query: ListQuery, form: Format) -> RowPage:
        """The same, as SQLite writes it. Raises NotShort."""
        if form is not JSON:
            raise NotShort
        if not is_written(self._exposed, query):
            raise NotWritten
        dialect = read.dialect
        page = self._kept((dialect.name, "page", query), lambda: spelled_page(self._exposed, query, dialect))
        end = self._kept((dialect.name, "end", query), lambda: spelled_end(self._exposed, query, dialect))
        read.driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_PAGE)
        with page.run(read) as result:
            items, number = result.fetchone()
        body = b"[" + (items or "").encode() + b"]"
        if number < query.limit:
            return RowPage(body, "")
        with end.run(read) as result:
            readers = end.readers(result, dialect)
            last, *behind = result.fetchmany(2)
        return RowPage(body, self._token(query, last, readers) if behind else "")

    def count(self, query: ListQuery) -> int:
        """The number of rows of all pages. Raises Invalid if it takes too long."""
        if not isinstance(self._connection, sa.Connection):
            raise NotShort
        return count(self._connection, self._exposed, query)

    def read(self, key: Sequence[str], select: Selection) -> Tagged:
        """One row. Raises NotFound, Invalid for a key that does not fit."""
        values = {f"key_{number}": value for number, value in enumerate(key_values(self._exposed, key))}
        related = select.embedded
        about = (BY_KEY[0], related)
        whole = self.one(lambda: self._by_key(related), values, about, related)
        if whole is None:
            raise NotFound(f"no such row in {self._exposed.name}")
        embedded = {one.name: whole.pop(_labelled(number)) for number, one in enumerate(related)}
        tag = tag_of(whole, embedded) if embedded else tag_of(whole)
        return Tagged({name: embedded[name] if name in embedded else whole[name] for name in select.names}, tag)

    def one(self, make: Callable[[], Spelled], values: Row, about: Hashable, related: Sequence[Embedded] = ()) -> Row | None:
        """The row that a statement of all columns, and of related rows behind them, gives, as JSON.

        about: what the statement depends on."""
        dialect = self._connection.dialect
        spelled = self._kept((dialect.name, about), make)
        columns = self._exposed.columns
        with spelled.run(self._connection, values) as result:
            row = result.fetchone()
            if row is None:
                return None
            names = (*columns, *map(_labelled, range(len(related))))
            shown = json_readers(tuple(columns.values()), spelled.readers(result, dialect))
            shown += [(len(columns) + n, _labelled(n), reader_of(one, dialect)) for n, one in enumerate(related)]
            return row_of(names, row, shown)

    def where(self, key: Sequence[str]) -> list[sa.ColumnElement[bool]]:
        """The conditions of the row with that key. Raises Invalid."""
        values = key_values(self._exposed, key)
        return [self._exposed.table.c[name] == value for name, value in zip(self._exposed.key, values, strict=True)]

    def _by_key(self, related: Sequence[Embedded]) -> Spelled:
        table, names = self._exposed.table, self._exposed.key
        marks = [f"key_{number}" for number in range(len(names))]
        where = [table.c[name] == sa.bindparam(mark, type_=table.c[name].type) for name, mark in zip(names, marks, strict=True)]
        dialect = self._connection.dialect
        cells = [related_rows(table, one, dialect.name).label(_labelled(n)) for n, one in enumerate(related)]
        return spell(sa.select(*table.c, *cells).where(*where), dialect, marks)

    def _list(self, query: ListQuery) -> tuple[Spelled, Values]:
        """The statement of a list, which is kept by its shape, and the values of this one. Raises Invalid, NotShort."""
        if query.after and isinstance(self._connection, Replay):  # the place of a page may be a text that is looked up
            raise NotShort
        dialect = self._connection.dialect
        shape, values = shape_of(self._exposed, query, dialect.name, self._value)

        def made() -> Spelled:
            return spell(statement(self._exposed, shape, dialect.name), dialect, tuple(values))

        return kept(self._connection, self._exposed.statements, (dialect.name, shape), made, len(values)), values

    def _kept(self, key: Hashable, make: Callable[[], Spelled]) -> Spelled:
        """The statement of that key. Raises NotShort."""
        return kept(self._connection, self._exposed.statements, key, make)

    def _shown(self, select: Selection, readers: Sequence[Converter | None]) -> Shown:
        """The fields whose values are not JSON as the driver gives them: their places and names, and what makes them JSON."""
        columns = self._exposed.columns
        shown: Shown = []
        for place, field in enumerate(select.fields):
            if isinstance(field, Embedded):
                shown.append((place, field.name, reader_of(field, self._connection.dialect)))
            else:
                shown += [(place, name, read) for _, name, read in json_readers([columns[field]], [readers[place]])]
        return shown

    def _token(self, query: ListQuery, row: Sequence[Any], readers: Sequence[Converter | None]) -> str:
        """The token behind that row, whose places in the order stand after the fields asked for."""
        start = len(query.select.fields)
        values = [reader(value) if reader else value for value, reader in zip(row[start:], readers[start:], strict=True)]
        return token_after(self._exposed, query, values)

    def _value(self, column: str, key: Sequence[str]) -> Any:
        """One column of the row with that key; None where there is none."""
        dialect = self._connection.dialect
        spelled = spell(sa.select(self._exposed.table.c[column]).where(*self.where(key)), dialect)
        with spelled.run(self._connection) as result:
            row, (reader,) = result.fetchone(), spelled.readers(result, dialect)
        return row if row is None else reader(row[0]) if reader else row[0]


def key_values(exposed: Exposed, key: Sequence[str]) -> list[Any]:
    """Return the parts of a primary key as the database takes them. Raises Invalid."""
    names = exposed.key
    if len(key) != len(names):
        raise invalid("key", f"must have {len(names)} part(s), divided by commas: {', '.join(names)}")
    return [from_text(exposed.columns[name], text, name) for name, text in zip(names, key, strict=True)]


def tag_of(whole: Row, embedded: Row | None = None) -> str:
    """The ETag of a row with all its columns. With related rows a second part is of them: `row_tag` takes it off."""
    parts = [_digest(orjson.dumps(part)) for part in (whole, embedded) if part is not None]
    return f'"{"-".join(parts)}"'


def tag_of_json(whole: bytes) -> str:
    """The ETag of a row without related rows, from all its columns as JSON."""
    return f'"{_digest(whole)}"'


def _digest(written: bytes) -> str:
    return hashlib.blake2b(written, digest_size=16).hexdigest()


def row_tag(tag: str) -> str:
    """The part of an ETag that is of the row itself, without its related rows."""
    first, dash, _ = tag.partition("-")
    return f'{first}"' if dash else tag


def _labelled(number: int) -> str:
    # A column's name begins with a letter.
    return f"_related{number}"
