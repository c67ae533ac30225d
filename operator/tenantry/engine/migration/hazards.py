"""Queries that count the rows which a step would harm, by the names that tables and columns have before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import UserDefinedType

from tenantry.engine.migration.conversions import Condition, conversion
from tenantry.engine.migration.shapes import TableShape

RowCount = sa.Select[int]


def rows(table: TableShape) -> RowCount:
    """All of them."""
    return sa.select(sa.func.count()).select_from(sa.table(table.name))


def values(table: TableShape, column: str) -> RowCount:
    """Those that have a value in the column."""
    return where(table, column, lambda value: value.is_not(None))


def nulls(table: TableShape, column: str) -> RowCount:
    """Those that have none."""
    return where(table, column, lambda value: value.is_(None))


def where(table: TableShape, column: str, condition: Condition) -> RowCount:
    """Those whose value in the column meets the condition."""
    described = sa.table(table.name, sa.column(column))
    return sa.select(sa.func.count()).select_from(described).where(condition(described.c[column]))


class _Spelled(UserDefinedType[Any]):
    """A type as DDL spells it."""

    cache_ok = True

    def __init__(self, type_: str) -> None:
        self.type_ = type_

    def get_col_spec(self, **_: Any) -> str:
        return self.type_


@dataclass(frozen=True)
class Future:
    """A table's rows as they will be, under the names that they will have. renamed: new column names by present ones."""

    before: TableShape
    after: TableShape
    renamed: Mapping[str, str]

    @property
    def present(self) -> Mapping[str, str]:
        """The present names of the columns that are there already, by those that they will have."""
        return {self.renamed.get(name, name): name for name in self.before.columns}

    def has(self, columns: tuple[str, ...]) -> bool:
        """Return True if all of these exist already, perhaps under other names."""
        return set(columns) <= self.present.keys()

    def converts(self, columns: Iterable[str]) -> bool:
        """Return True if any of these changes its type."""
        present = self.present
        return any(
            name in present and self.before.columns[present[name]].type != self.after.columns[name].type for name in columns
        )

    def rows(self) -> sa.Subquery:
        """All columns that stay, and the new ones whose default is a literal or none."""
        present = self.present
        table = sa.table(self.before.name, *map(sa.column, self.before.columns))
        return sa.select(*[
            self._value(table.c[present[name]] if name in present else None, name).label(name)
            for name, shape in self.after.columns.items()
            if name in present or shape.constant
        ]).subquery()  # fmt: skip

    def _value(self, old: sa.ColumnClause[Any] | None, name: str) -> sa.ColumnElement[Any]:
        now = self.after.columns[name]
        if old is None:
            return sa.cast(sa.literal_column(now.default or "NULL"), _Spelled(now.type))
        was = self.before.columns[str(old.name)]
        if was.type == now.type:
            return old
        how = conversion(was.type, now.type)
        value = sa.cast(how.value(old), _Spelled(now.type))
        # A value that is in the way is counted by its own step, and its cast would fail.
        return value if how.breaks is None else sa.case((sa.not_(how.breaks(old)), value))


def duplicates(table: Future, key: tuple[str, ...]) -> RowCount | None:
    """Those that will share a key. None where no two can."""
    added = [table.after.columns[name] for name in key if not table.has((name,))]
    if any(not shape.default or not shape.same_for_all for shape in added):
        return None
    rows = table.rows()
    columns = [rows.c[name] for name in key if table.has((name,))]
    if not columns:
        count = sa.func.count()
        return sa.select(sa.case((count > 1, count), else_=0)).select_from(rows)
    known = [column.is_not(None) for column in columns]
    groups = sa.select(sa.func.count().label("size")).select_from(rows).where(*known).group_by(*columns)
    shared = groups.having(sa.func.count() > 1).subquery()
    return sa.select(sa.func.coalesce(sa.func.sum(shared.c.size), 0))


def orphans(child: Future, columns: tuple[str, ...], parent: Future | None, to: tuple[str, ...]) -> RowCount | None:
    """Count the child rows without a parent. None if that depends on rows of the parent that come later."""
    if not child.has(columns):
        return None
    rows = child.rows()
    query = sa.select(sa.func.count()).select_from(rows).where(*(rows.c[name].is_not(None) for name in columns))
    if parent is None or not parent.has(to):
        return None
    parents = parent.rows()
    same = [parents.c[theirs] == rows.c[own] for own, theirs in zip(columns, to, strict=True)]
    return query.where(~sa.exists().where(*same))


def failing(table: Future, expression: str) -> RowCount | None:
    """Those that a check does not let through. None where the check needs values that are not there yet."""
    rows = table.rows()
    if set(table.after.columns) != set(rows.c.keys()):
        return None
    condition: sa.ColumnElement[bool] = sa.literal_column(f"({expression})")
    return sa.select(sa.func.count()).select_from(rows).where(sa.not_(condition))
