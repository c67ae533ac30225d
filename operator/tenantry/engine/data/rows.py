"""Rows of one table on one connection: inserted, changed and deleted, each within the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from tenantry.engine.data.constraints import refusing
from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.reading.reader import Reader, Row, Tagged, row_tag, tag_of
from tenantry.engine.data.values import from_json, row_json
from tenantry.engine.data.writing.bulk import BulkInsert, check_columns, value_in
from tenantry.engine.data.writing.given import Place
from tenantry.engine.data.writing.statements import about_inserted, inserting, mark
from tenantry.engine.sql.quick.replay import Replay
from tenantry.engine.sql.short_reads import NotShort
from tenantry.engine.sql.spelled import Spelled, spell
from tenantry.model.verdicts import Conflict, NotFound
from tenantry.packages.values import default_of_key
from tenantry.rest.bodies import invalid

MOST_ROWS = 1000


class Rows:
    """The rows of one table of an installed app. reader: reads them in the same transaction."""

    def __init__(self, connection: sa.Connection | Replay, exposure: Exposure, exposed: Exposed) -> None:
        self._connection = connection
        self._exposure = exposure
        self._exposed = exposed
        self._table = exposed.table
        self.reader = Reader(connection, exposed)

    def insert(self, given: Sequence[Any], place: Place, conflict: tuple[str, ...] = ()) -> list[Tagged]:
        """Insert all rows. place: of a row, for errors. conflict: the key by which rows that are there are changed instead.

        Raises Invalid naming the column.
        """
        inserted = []
        for number, values in enumerate(given):
            field = place(number)
            if not isinstance(values, dict):
                raise invalid(field.rstrip("., ") or "body", "must be a JSON object")
            check_columns(self._exposed, tuple(values), conflict, field)
            row = {name: value_in(self._exposed, name, value, field) for name, value in values.items()}
            with self._refusing(field, row):
                whole = self._inserted(row, conflict)
                inserted.append(Tagged(whole, tag_of(whole)))
        return inserted

    def bulk(self, conflict: tuple[str, ...], place: Place) -> BulkInsert:
        """Inserts of many rows that nobody wants to see. place, conflict: as of `insert`."""
        return BulkInsert(self._whole, self._exposure, self._exposed, conflict, place)

    def change(self, key: Sequence[str], given: Any, wanted: str | None) -> Tagged:
        """Changes one row. wanted: the If-Match header. Raises NotFound, Conflict, Invalid naming the column."""
        where = self.reader.where(key)
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
        where = self.reader.where(key)
        self._matching(where, wanted)
        with self._refusing("", {}):
            self._whole.execute(self._table.delete().where(*where))

    def _inserted(self, row: Row, conflict: tuple[str, ...]) -> Row:
        """The row as it is now, as JSON."""
        values = {**default_of_key(self._exposed.declared), **row}
        nulls = {name for name, value in values.items() if value is None}
        given = {mark(number): value for number, (name, value) in enumerate(values.items()) if name not in nulls}
        spelled = inserting(self._connection, self._exposed, tuple(values), conflict, nulls=nulls, returning=self.returns)
        if self.returns:
            found = self.reader.one(lambda: spelled, given, about_inserted(tuple(values), nulls, conflict))
        else:
            with spelled.run(self._connection, given):
                pass
            merged = bool(conflict) and nulls.isdisjoint(conflict)
            found = self._of_key(conflict, values) if merged else self.reader.one(self._last, {}, "last")
        assert found is not None
        return found

    def _of_key(self, key: tuple[str, ...], values: Row) -> Row | None:
        """The row with those values of a unique key: SQLite's last id is not that of a row that was changed."""

        def made() -> Spelled:
            where = [self._table.c[name] == sa.bindparam(mark(n), type_=self._table.c[name].type) for n, name in enumerate(key)]
            marks = [mark(number) for number in range(len(key))]
            return spell(sa.select(*self._table.c).where(*where), self._connection.dialect, marks)

        return self.reader.one(made, {mark(number): values[name] for number, name in enumerate(key)}, ("of key", key))

    def _last(self) -> Spelled:
        last = sa.literal_column("_rowid_") == sa.func.last_insert_rowid()
        return spell(sa.select(*self._table.c).select_from(self._table).where(last), self._connection.dialect)

    def _updated(self, where: Sequence[sa.ColumnElement[bool]], row: Row) -> RowMapping:
        update = self._table.update().where(*where).values(row)
        if self.returns:
            return self._whole.execute(update.returning(*self._table.c)).mappings().one()
        self._whole.execute(update)
        return self._found(where)

    @property
    def returns(self) -> bool:
        """Return True if a statement that writes a row gives it.

        SQLite 3.40 gives RETURNING the types of the first column's values: a bigint beside a double is rounded.
        """
        return self._connection.dialect.name != "sqlite"

    @property
    def _whole(self) -> sa.Connection:
        """The connection for work of several statements. Raises NotShort in the event loop."""
        if isinstance(self._connection, Replay):
            raise NotShort
        return self._connection

    def _found(self, where: Sequence[sa.ColumnElement[bool]], lock: bool = False) -> RowMapping:
        query = sa.select(*self._table.c).where(*where)
        row = self._whole.execute(query.with_for_update() if lock else query).mappings().first()
        if row is None:
            raise NotFound(f"no such row in {self._exposed.name}")
        return row

    def _matching(self, where: Sequence[sa.ColumnElement[bool]], wanted: str | None) -> RowMapping:
        row = self._found(where, lock=True)
        if (
            wanted is not None
            and wanted.strip() != "*"
            and self._tag(row) not in [row_tag(tag.strip()) for tag in wanted.split(",")]
        ):
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

    def _refusing(self, field: str, row: Mapping[str, Any]) -> AbstractContextManager[None]:
        return refusing(self._connection, self._exposure, self._exposed, field, row)

    def _tagged(self, row: RowMapping) -> Tagged:
        whole = row_json(self._exposed.columns, row)
        return Tagged(whole, tag_of(whole))

    def _tag(self, row: RowMapping) -> str:
        return tag_of(row_json(self._exposed.columns, row))
