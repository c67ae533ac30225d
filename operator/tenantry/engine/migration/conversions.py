"""Conversions of a column's values to another type: kept values, cut values, and values in the way.

Each element is compiled for the database: on SQLite a call of migration/rules.py, except where migration/shortcuts.py knows the
same in SQL; on PostgreSQL the same rule in SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from tenantry.engine.migration import rules
from tenantry.engine.migration.functions import ExactNumber
from tenantry.engine.migration.shortcuts import in_sqlite
from tenantry.engine.migration.types import LARGEST_WHOLE, NUMBER_TEXT, WHOLE_TEXT, ColumnType, parse_type

Value = sa.ColumnElement[Any]
Condition = Callable[[Value], sa.ColumnElement[bool]]


@dataclass(frozen=True)
class Conversion:
    """value: the new value. cuts: true for values that lose something; breaks: for those that cannot become the new type."""

    value: Callable[[Value], Value]
    cuts: Condition | None = None
    breaks: Condition | None = None


def conversion(was: str, now: str) -> Conversion:
    """From one type to another, each as DDL spells it. cuts and breaks are None where no value can be cut or in the way."""
    sql = _in_sql(parse_type(was), parse_type(now))

    def by_rule(name: str, spelled: Callable[[Value], Value], result: sa.types.TypeEngine[Any]) -> Callable[[Value], Any]:
        return lambda value: _ByRule(name, value, was, now, spelled(value), result)

    return Conversion(
        by_rule(rules.CONVERTED, sql.value, sa.types.NULLTYPE),
        by_rule(rules.CUTS, sql.cuts, sa.Boolean()) if sql.cuts else None,
        by_rule(rules.BREAKS, sql.breaks, sa.Boolean()) if sql.breaks else None,
    )


class _ByRule(FunctionElement[Any]):
    """One rule for one value. sql: the same on PostgreSQL."""

    inherit_cache = False

    def __init__(self, name: str, value: Value, was: str, now: str, sql: Value, result: sa.types.TypeEngine[Any]) -> None:
        super().__init__(value)
        self.rule, self.was, self.now, self.sql, self.type = name, was, now, sql, result


@compiles(_ByRule, "sqlite")
def _by_rule_sqlite(element: _ByRule, compiler: Any, **options: Any) -> str:
    return in_sqlite(element.rule, compiler.process(element.clauses, **options), element.was, element.now)


@compiles(_ByRule, "postgresql")
def _by_rule_postgresql(element: _ByRule, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.sql, **options)})"


def _in_sql(old: ColumnType, new: ColumnType) -> Conversion:
    match old.family, new.family:
        case "blob" | "json" | "other", _:
            return _IMPOSSIBLE
        case "text", "text":
            if new.size is None or (old.size is not None and old.size <= new.size):
                return Conversion(_itself)  # as PostgreSQL changes a text without a look at the rows
            return _shortened(new.size)
        case _, "text":
            return _spelled(new.size, _TEXTS.get(old.family, _text))
        case "text", "whole":
            return _whole(new.name, _reader(WHOLE_TEXT), _unlike(WHOLE_TEXT))
        case "text", "exact" | "double":
            return _number(new, _reader(NUMBER_TEXT), _unlike(NUMBER_TEXT))
        case "boolean", "whole":
            return Conversion(lambda value: sa.cast(value, sa.Integer))
        case "whole" | "exact" | "double", "whole":
            return _whole(new.name, _exact(old), narrows=old.family != "whole" or old.name != "INTEGER")
        case "whole" | "exact" | "double", "exact" | "double":
            return _number(new, _exact(old))
        case "whole", "boolean":
            return Conversion(lambda value: value != 0, breaks=lambda value: value.not_in((0, 1)))
        case "datetime", "date":
            return Conversion(lambda value: sa.cast(value, sa.Date), cuts=_any)
        case "date", "datetime":
            return Conversion(lambda value: sa.cast(value, sa.DateTime))
        case _:
            return _IMPOSSIBLE


def _itself(value: Value) -> Value:
    return value


def _any(value: Value) -> sa.ColumnElement[bool]:
    return value.is_not(None)


_IMPOSSIBLE = Conversion(lambda value: sa.null(), breaks=_any)


def _exact(old: ColumnType) -> Callable[[Value], Value]:
    """Reads a number exactly: PostgreSQL's own cast of doubles keeps 15 digits."""
    return ExactNumber if old.family == "double" else lambda value: sa.cast(value, sa.Numeric)


def _shortened(size: int) -> Conversion:
    return Conversion(lambda value: sa.func.substr(value, 1, size), cuts=lambda value: sa.func.length(value) > size)


def _text(value: Value) -> Value:
    return sa.cast(value, sa.Text)


def _flag_text(value: Value) -> Value:
    return sa.case((value == sa.true(), "true"), (value == sa.false(), "false"))


def _moment_text(value: Value) -> Value:
    whole = sa.func.date_trunc("second", value) == value
    long, short = (sa.func.to_char(value, f'YYYY-MM-DD"T"HH24:MI:SS{fraction}"Z"') for fraction in (".US", ""))
    return sa.case((whole, short), else_=long)


_TEXTS = {"boolean": _flag_text, "datetime": _moment_text, "double": lambda value: sa.cast(value + 0.0, sa.Text)}


def _spelled(size: int | None, text: Callable[[Value], Value]) -> Conversion:
    return Conversion(text, breaks=None if size is None else lambda value: sa.func.length(text(value)) > size)


def _reader(pattern: str) -> Callable[[Value], Value]:
    """Texts of that pattern as numbers, others as NULL: PostgreSQL's casts fail on them, also where they do not count."""
    return lambda value: sa.case((sa.cast(value, sa.Text).regexp_match(pattern), sa.cast(value, sa.Numeric)))


def _whole(name: str, read: Callable[[Value], Value], unreadable: Condition | None = None, narrows: bool = True) -> Conversion:
    most = LARGEST_WHOLE[name]

    def inside(value: Value) -> sa.ColumnElement[bool]:
        return sa.and_(read(value) >= -most - 1, sa.func.round(read(value)) <= most, read(value) <= most)

    def rounded(value: Value) -> Value:
        return sa.case((inside(value), sa.cast(sa.func.round(read(value)), sa.BigInteger)))

    if not narrows:
        return Conversion(lambda value: sa.cast(value, sa.BigInteger))
    return Conversion(
        rounded,
        cuts=lambda value: rounded(value) != read(value),
        breaks=_either(unreadable, lambda value: sa.not_(inside(value))),
    )


def _number(new: ColumnType, read: Callable[[Value], Value], unreadable: Condition | None = None) -> Conversion:
    if new.family == "double" or new.size is None:
        return Conversion(
            lambda value: sa.cast(read(value), sa.Double) + 0.0,
            cuts=lambda value: ExactNumber(sa.cast(read(value), sa.Double)) != read(value),
            breaks=unreadable,
        )
    bound = 10 ** (new.size - new.scale)

    def rounded(value: Value) -> Value:
        return sa.func.round(read(value), new.scale)

    return Conversion(
        lambda value: sa.case((sa.func.abs(rounded(value)) < bound, rounded(value))),
        cuts=lambda value: sa.and_(sa.func.abs(rounded(value)) < bound, rounded(value) != read(value)),
        breaks=_either(unreadable, lambda value: sa.func.abs(rounded(value)) >= bound),
    )


def _unlike(pattern: str) -> Condition:
    return lambda value: sa.not_(sa.cast(value, sa.Text).regexp_match(pattern))


def _either(first: Condition | None, second: Condition) -> Condition:
    return second if first is None else lambda value: sa.or_(first(value), second(value))
