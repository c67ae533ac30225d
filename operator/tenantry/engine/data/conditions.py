"""Conditions of filters as SQL, from their shape: filters that differ in values alone have one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.filters import Comparison, Group, Term, parameter

Condition = sa.ColumnElement[bool]
_ORDERED: dict[str, Callable[[Any, Any], Condition]] = {
    "gt": lambda column, value: column > value,
    "gte": lambda column, value: column >= value,
    "lt": lambda column, value: column < value,
    "lte": lambda column, value: column <= value,
}


def comparable(column: sa.ColumnElement[Any], dialect: str) -> sa.ColumnElement[Any]:
    """The column as comparisons and orders take it: texts by their code points, whatever the server's locale is."""
    if dialect == "postgresql" and isinstance(column.type, sa.String):
        return sa.collate(column, "C")
    return column


def where(exposed: Exposed, dialect: str, shape: Iterable[Term]) -> list[Condition]:
    """The conditions of that shape. Each value is a parameter that has its name alone."""
    return [_condition(exposed, dialect, term) for term in shape]


def _condition(exposed: Exposed, dialect: str, term: Term) -> Condition:
    if isinstance(term, Group):
        terms = where(exposed, dialect, term.terms)
        made = sa.or_(*terms) if term.one else sa.and_(*terms)
    else:
        made = _comparison(exposed, dialect, term)
    return sa.not_(made) if term.negated else made


def _comparison(exposed: Exposed, dialect: str, one: Comparison) -> Condition:
    column = exposed.table.c[one.column]
    numbers = range(one.first, one.first + one.count)
    values = [sa.bindparam(parameter(number), type_=column.type) for number in numbers]
    match one.operator:
        case "is.null":
            return column.is_(sa.null())
        case "is.not_null":
            return column.is_not(sa.null())
        case "is.true" | "is.false":
            # NULL is neither: `not.is.true` holds for it.
            return sa.func.coalesce(column == (one.operator == "is.true"), sa.false())
        case "in":
            return column.in_(values)
        # Two texts are equal by their bytes in each collation, and an index of another one still finds them.
        case "eq":
            return column == values[0]
        case "neq":
            return column != values[0]
        case "ilike":
            return comparable(column, dialect).ilike(values[0], escape="\\")
        case "like" if dialect == "sqlite":
            return column.op("GLOB", is_comparison=True)(values[0])
        case "like":
            return comparable(column, dialect).like(values[0], escape="\\")
    return _ORDERED[one.operator](comparable(column, dialect), values[0])
