"""Many rows into one table, a chunk at a time: checked by columns, inserted by one statement each, answered by none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, KeysView, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tenantry.engine.data.constraints import refusing
from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.values import from_json
from tenantry.engine.data.writing.given import Chunk, Place
from tenantry.engine.data.writing.statements import inserting, mark
from tenantry.engine.sql.spelled import Spelled
from tenantry.packages.defaults import LARGEST
from tenantry.packages.manifest import Column
from tenantry.packages.values import default_of_key
from tenantry.rest.bodies import invalid

Row = dict[str, Any]


class BulkInsert:
    """Inserts rows of one table within the caller's transaction.

    conflict: the key by which rows that are there are changed instead, () for none. place: of a row, for errors.
    """

    def __init__(
        self, connection: sa.Connection, exposure: Exposure, exposed: Exposed, conflict: tuple[str, ...], place: Place
    ) -> None:
        self._connection = connection
        self._exposure = exposure
        self._exposed = exposed
        self._conflict = conflict
        self._place = place

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Insert all rows. Raises Invalid naming the first row, of those checked together, that does not fit, and its column."""
        for chunk in chunks:
            self._chunk(chunk)
            time.sleep(0)  # others may run

    def _chunk(self, chunk: Chunk) -> None:
        rows, start = chunk.rows, 0
        while start < len(rows):
            names = _names(rows[start], self._place(chunk.numbers[start]))
            end = start + 1
            while end < len(rows) and type(rows[end]) is dict and rows[end].keys() == names:
                end += 1
            self._alike(chunk.numbers[start:end], rows[start:end])
            start = end

    def _alike(self, numbers: Sequence[int], rows: Sequence[Row]) -> None:
        """Insert rows that have the same columns."""
        names = tuple(rows[0])
        check_columns(self._exposed, names, self._conflict, self._place(numbers[0]))
        try:
            values = {name: self._values(name, [row[name] for row in rows], numbers) for name in names}
        except _RefusedError:
            values = {name: [] for name in names}
            for number, row in zip(numbers, rows, strict=True):
                for name in names:
                    values[name].append(value_in(self._exposed, name, row[name], self._place(number)))
        values |= {
            name: [value] * len(rows) for name, value in default_of_key(self._exposed.declared).items() if name not in names
        }
        spelled = inserting(self._connection, self._exposed, tuple(values), self._conflict)
        self._insert(spelled, _parameters(spelled, list(values.values())), numbers, rows)

    def _values(self, name: str, values: list[Any], numbers: Sequence[int]) -> list[Any]:
        """The values of one column as the database takes them. Raises _RefusedError where one does not fit."""
        column = self._exposed.columns[name]
        present = [value for value in values if value is not None] if None in values else values
        if len(present) < len(values) and not self._exposed.table.c[name].nullable:
            raise _RefusedError
        plain = _PLAIN.get(column.type)
        if plain is not None and plain(column, present):
            return values
        return [value_in(self._exposed, name, value, self._place(number)) for number, value in zip(numbers, values, strict=True)]

    def _insert(self, spelled: Spelled, parameters: list[Any], numbers: Sequence[int], rows: Sequence[Row]) -> None:
        """Execute the statement for all rows at once; only if that fails, for one after the other, to name the row."""
        if len(rows) > 1:
            self._connection.exec_driver_sql("SAVEPOINT rows")
            try:
                self._connection.exec_driver_sql(spelled.sql, parameters)
            except IntegrityError:
                self._connection.exec_driver_sql("ROLLBACK TO SAVEPOINT rows")
            else:
                self._connection.exec_driver_sql("RELEASE SAVEPOINT rows")
                return
        for number, row, given in zip(numbers, rows, parameters, strict=True):
            taken = {name: value_in(self._exposed, name, value, "") for name, value in row.items()}
            with refusing(self._connection, self._exposure, self._exposed, self._place(number), taken):
                self._connection.exec_driver_sql(spelled.sql, given)


class _RefusedError(Exception):
    """A value does not fit: the row is looked for."""


def check_columns(exposed: Exposed, names: Sequence[str], conflict: Sequence[str], field: str) -> None:
    """Raise Invalid unless a row with those columns can be inserted, and merged by that key."""
    for name in names:
        column = exposed.columns.get(name)
        if column is None:
            raise invalid(f"{field}{name[:64]}", f"there is no such column in {exposed.name}")
        if column.generated:
            raise invalid(f"{field}{name}", "is generated by the database")
        if conflict and name in exposed.key and name not in conflict:
            raise invalid(f"{field}{name}", "is part of the primary key, which does not change: merge by the primary key")
    for name, column in exposed.columns.items():
        if name in names:
            continue
        if name in conflict:
            raise invalid(f"{field}{name}", "is required: rows are merged by it")
        if not exposed.table.c[name].nullable and column.default is None and not column.generated:
            raise invalid(f"{field}{name}", "is required")


def value_in(exposed: Exposed, name: str, value: Any, field: str) -> Any:
    """One value as the column takes it, None for NULL. Raises Invalid naming the column."""
    if value is not None:
        return from_json(exposed.columns[name], value, f"{field}{name}")
    if not exposed.table.c[name].nullable:
        raise invalid(f"{field}{name}", "must not be null")
    return None


def _names(row: Any, field: str) -> KeysView[str]:
    if type(row) is not dict:
        raise invalid(field.rstrip("., ") or "body", "must be a JSON object")
    return row.keys()


def _parameters(spelled: Spelled, columns: list[list[Any]]) -> list[Any]:
    """The rows as the driver takes them, of columns in the order of their marks."""
    bound = []
    for place, values in enumerate(columns):
        binder = spelled.binders[mark(place)]
        bound.append(values if binder is None else [None if value is None else binder(value) for value in values])
    if spelled.order is None:
        marks = [mark(place) for place in range(len(bound))]
        return [dict(zip(marks, row, strict=True)) for row in zip(*bound, strict=True)]
    ordered = [bound[int(name.rpartition("_")[2])] for name in spelled.order]
    return list(zip(*ordered, strict=True))


def _whole(column: Column, values: Sequence[Any]) -> bool:
    largest = LARGEST[column.type]
    return set(map(type, values)) <= {int} and (not values or (-largest - 1 <= min(values) and max(values) <= largest))


def _text(column: Column, values: Sequence[Any]) -> bool:
    # The parser of JSON refuses halves of surrogate pairs.
    if not set(map(type, values)) <= {str} or "\0" in "".join(values):
        return False
    return column.length is None or not values or max(map(len, values)) <= column.length


_PLAIN: dict[str, Callable[[Column, Sequence[Any]], bool]] = {
    "integer": _whole,
    "bigint": _whole,
    "string": _text,
    "text": _text,
    "boolean": lambda _, values: set(map(type, values)) <= {bool},
}
"""Types of which many values are checked at once. The values are the database's already."""
