"""Queries that count the rows which a step would harm, by the names that tables and columns have before it."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from tenantry.engine.migration.conversions import Condition
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
