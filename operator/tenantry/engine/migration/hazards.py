"""Queries that count the rows which a step would harm, by the names that tables and columns have before it."""

from __future__ import annotations

from collections.abc import Mapping
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


def duplicates(before: TableShape, after: TableShape, key: tuple[str, ...], renamed: Mapping[str, str]) -> RowCount | None:
    """Those that share a key, given by its new names; None where no two can."""
    present = {renamed.get(name, name): name for name in before.columns}
    added = [after.columns[name] for name in key if name not in present]
    if any(not shape.default or not shape.same_for_all for shape in added):
        return None
    table = sa.table(before.name, *map(sa.column, before.columns))
    columns = [table.c[present[name]] for name in key if name in present]
    if not columns:
        count = sa.func.count()
        return sa.select(sa.case((count > 1, count), else_=0)).select_from(table)
    known = [column.is_not(None) for column in columns]
    groups = sa.select(sa.func.count().label("size")).select_from(table).where(*known).group_by(*columns)
    shared = groups.having(sa.func.count() > 1).subquery()
    return sa.select(sa.func.coalesce(sa.func.sum(shared.c.size), 0))


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

    def has(self, columns: tuple[str, ...]) -> bool:
        """Are all of these there already, maybe under other names?"""
        return set(columns) <= {self.renamed.get(name, name) for name in self.before.columns}

    def rows(self) -> sa.Subquery:
        """All columns that stay, and the new ones whose default is a literal or none."""
        present = {self.renamed.get(name, name): name for name in self.before.columns}
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
        return old if was.type == now.type else sa.cast(conversion(was.type, now.type).value(old), _Spelled(now.type))


def orphans(child: Future, columns: tuple[str, ...], parent: Future | None, to: tuple[str, ...]) -> RowCount | None:
    """Those of the child whose parent is not there. None where that cannot be told before the parent's rows are."""
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
