"""Rows of one table on one connection: listed, read, inserted, changed and deleted, each within the caller's transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import RowMapping
from sqlalchemy.exc import DBAPIError

from tenantry.engine.data.constraints import missing_parent, refusal_of
from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.query import ListQuery, statement, token_after
from tenantry.engine.data.values import from_json, from_text, row_json
from tenantry.engine.migration.tables import default_of_key
from tenantry.model.verdicts import Conflict, NotFound
from tenantry.rest.bodies import invalid

PAGE_BYTES = 8 << 20
"""A page ends early, but not before its first row, once it has so many bytes."""
MOST_ROWS = 1000
_FETCHED = 50

Row = dict[str, Any]


@dataclass(frozen=True)
class RowPage:
    """A page as JSON. after: the `continue` token of the next, `""` on the last."""

    json: bytes
    after: str


@dataclass(frozen=True)
class Tagged:
    """A row as JSON. tag: its ETag, of all its columns, whichever are shown."""

    row: Row
    tag: str


class Rows:
    """The rows of one table of an installed app."""

    def __init__(self, connection: sa.Connection, exposure: Exposure, exposed: Exposed) -> None:
        self._connection = connection
        self._exposure = exposure
        self._exposed = exposed
        self._table = exposed.table

    def page(self, query: ListQuery) -> RowPage:
        """One page. Raises Invalid for a filter that does not fit."""
        dialect = self._connection.dialect.name
        found = statement(self._exposed, query, dialect, self._value).execution_options(yield_per=_FETCHED)
        parts: list[bytes] = []
        size, last = 0, None
        with self._connection.execute(found) as rows:
            for row in rows.mappings():
                if len(parts) == query.limit or size >= PAGE_BYTES:
                    assert last is not None
                    return RowPage(_array(parts), token_after(self._exposed, query, last, dialect))
                parts.append(orjson.dumps(self._shown(row, query.select)))
                size += len(parts[-1])
                last = row
        return RowPage(_array(parts), "")

    def read(self, key: Sequence[str], select: Sequence[str]) -> Tagged:
        """One row. Raises NotFound, Invalid for a key that does not fit."""
        row = self._found(self._where(key))
        return Tagged(self._shown(row, select), self._tag(row))

    def insert(self, given: Sequence[Any], many: bool) -> list[Tagged]:
        """Inserts them all. many: whether a refusal tells the row's number. Raises Invalid naming the column."""
        inserted = []
        for number, values in enumerate(given):
            field = f"[{number}]." if many else ""
            row = self._values(values, field)
            self._check_present(row, field)
            with self._refusing(field, row):
                inserted.append(self._tagged(self._inserted(row)))
        return inserted

    def change(self, key: Sequence[str], given: Any, wanted: str | None) -> Tagged:
        """Changes one row. wanted: the If-Match header. Raises NotFound, Conflict, Invalid naming the column."""
        where = self._where(key)
        current = self._matching(where, wanted)
        row = self._values(given, "")
        for name in row:
            if name in self._exposed.key:
                raise invalid(name, "is part of the primary key, which does not change")
        if not row:
            return self._tagged(current)
        with self._refusing("", {**dict(current), **row}):
            return self._tagged(self._updated(where, row))

    def delete(self, key: Sequence[str], wanted: str | None) -> None:
        """Deletes one row. wanted: the If-Match header. Raises NotFound, Conflict, Invalid where others reference it."""
        where = self._where(key)
        self._matching(where, wanted)
        with self._refusing("", {}):
            self._connection.execute(self._table.delete().where(*where))

    def _inserted(self, row: Row) -> RowMapping:
        insert = self._table.insert().values({**default_of_key(self._exposed.declared), **row})
        if self._returns:
            return self._connection.execute(insert.returning(*self._table.c)).mappings().one()
        self._connection.execute(insert.inline())
        last = sa.literal_column("_rowid_") == sa.func.last_insert_rowid()
        return self._connection.execute(sa.select(*self._table.c).select_from(self._table).where(last)).mappings().one()

    def _updated(self, where: Sequence[sa.ColumnElement[bool]], row: Row) -> RowMapping:
        update = self._table.update().where(*where).values(row)
        if self._returns:
            return self._connection.execute(update.returning(*self._table.c)).mappings().one()
        self._connection.execute(update)
        return self._found(where)

    @property
    def _returns(self) -> bool:
        """SQLite 3.40 gives RETURNING the types of the first column's values: a bigint beside a double is rounded."""
        return self._connection.dialect.name != "sqlite"

    def _where(self, key: Sequence[str]) -> list[sa.ColumnElement[bool]]:
        names = self._exposed.key
        if len(key) != len(names):
            raise invalid("key", f"must have {len(names)} part(s), divided by commas: {', '.join(names)}")
        columns = self._exposed.columns
        return [self._table.c[name] == from_text(columns[name], text, name) for name, text in zip(names, key, strict=True)]

    def _value(self, column: str, key: Sequence[str]) -> Any:
        """One column of the row with that key; None where there is none."""
        return self._connection.execute(sa.select(self._table.c[column]).where(*self._where(key))).scalar()

    def _found(self, where: Sequence[sa.ColumnElement[bool]], lock: bool = False) -> RowMapping:
        query = sa.select(*self._table.c).where(*where)
        row = self._connection.execute(query.with_for_update() if lock else query).mappings().first()
        if row is None:
            raise NotFound(f"no such row in {self._exposed.name}")
        return row

    def _matching(self, where: Sequence[sa.ColumnElement[bool]], wanted: str | None) -> RowMapping:
        row = self._found(where, lock=True)
        if wanted is not None and wanted.strip() != "*" and self._tag(row) not in [tag.strip() for tag in wanted.split(",")]:
            raise Conflict(f"the row of {self._exposed.name} has changed: its ETag is another")
        return row

    def _values(self, given: Any, field: str) -> Row:
        """The given columns as the database takes them. Raises Invalid naming the first that does not fit."""
        if not isinstance(given, dict):
            raise invalid(field.rstrip(".") or "body", "must be a JSON object")
        row = {}
        for name, value in given.items():
            column = self._exposed.columns.get(name)
            if column is None:
                raise invalid(f"{field}{name[:64]}", f"there is no such column in {self._exposed.name}")
            if column.generated:
                raise invalid(f"{field}{name}", "is generated by the database")
            if value is None and not self._table.c[name].nullable:
                raise invalid(f"{field}{name}", "must not be null")
            row[name] = from_json(column, value, f"{field}{name}")
        return row

    def _check_present(self, row: Row, field: str) -> None:
        for name, column in self._exposed.columns.items():
            if name not in row and not self._table.c[name].nullable and column.default is None and not column.generated:
                raise invalid(f"{field}{name}", "is required")

    @contextmanager
    def _refusing(self, field: str, row: Mapping[str, Any]) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            refusal = refusal_of(error, self._exposure, self._exposed, field)
            if refusal is None:
                raise
            if self._connection.dialect.name == "sqlite" and "FOREIGN KEY" in str(error.orig):
                self._tell_missing_parent(field, row)
            raise refusal from error

    def _tell_missing_parent(self, field: str, row: Mapping[str, Any]) -> None:
        values = {name: None if isinstance(value, sa.Null) else value for name, value in row.items()}
        columns = missing_parent(self._connection, self._exposed, values)
        if columns:
            raise invalid(f"{field}{', '.join(columns)}", "there is no such row in the table that it references")

    def _shown(self, row: RowMapping, select: Sequence[str]) -> Row:
        return row_json({name: self._exposed.columns[name] for name in select}, row)

    def _tagged(self, row: RowMapping) -> Tagged:
        return Tagged(row_json(self._exposed.columns, row), self._tag(row))

    def _tag(self, row: RowMapping) -> str:
        raw = orjson.dumps(row_json(self._exposed.columns, row))
        return f'"{hashlib.blake2b(raw, digest_size=16).hexdigest()}"'


def _array(parts: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"
