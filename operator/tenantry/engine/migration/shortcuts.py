"""Conversions that SQLite does by itself, for the values for which it does the same as `rules.convert`.

A call of Python for each value makes the rebuild of a large table nine times slower. So each rule is asked in SQL first whether
the value is a plain one, such as a text that is short enough. Only the others are left to Python.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tenantry.engine.migration import rules
from tenantry.engine.migration.types import LARGEST_WHOLE, ColumnType, parse_type

_EXACT_DOUBLE = 2**53
"""Whole numbers up to here are doubles as well."""
_EXACT_DIGITS = 15
"""Decimals of so many digits are the shortest text of their double."""


class Shortcut(NamedTuple):
    """SQL over `{v}`, a value that is not NULL. applies: true where the rest holds, and never for values in the way.

    value: the new value. cuts: does it lose something?
    """

    applies: str
    value: str = "{v}"
    cuts: bool = False


def in_sqlite(rule: str, value: str, was: str, now: str) -> str:
    """Return the SQL that applies a rule of `rules` to a value. The rule's function is called where SQLite needs it."""
    called = f"{rule}({value}, '{was}', '{now}')"
    plain = _shortcuts(parse_type(was), parse_type(now))
    if not plain:
        return called
    of_null = "NULL" if rule == rules.CONVERTED else "0"
    cases = [f"WHEN {value} IS NULL THEN {of_null}"]
    for each in plain:
        result = {rules.CONVERTED: each.value.format(v=value), rules.CUTS: str(int(each.cuts))}.get(rule, "0")
        cases.append(f"WHEN {each.applies.format(v=value)} THEN {result}")
    return f"CASE {' '.join(cases)} ELSE {called} END"


@lru_cache(maxsize=256)
def _shortcuts(old: ColumnType, new: ColumnType) -> tuple[Shortcut, ...]:
    match old.family, new.family:
        case "text", "text":
            # A text has at least as many bytes as characters. `length` of a text stops at a NUL.
            return (Shortcut(_is("text") + _fits("length(CAST({v} AS BLOB))", new.size)),)
        case "date", "text":
            return (Shortcut(_is("text") + _fits("length(CAST({v} AS BLOB))", new.size)),)
        case "whole", "text":
            return (Shortcut(_is("integer") + _fits("length({v})", new.size), "CAST({v} AS TEXT)"),)
        case "boolean", "text":
            short = _fits("5", new.size)
            return (Shortcut("{v} IS 1" + short, "'true'"), Shortcut("{v} IS 0" + short, "'false'"))
        case "boolean", "whole":
            return (Shortcut(_is("integer")),)
        case "whole", "boolean":
            return (Shortcut(_is("integer") + " AND {v} IN (0, 1)"),)
        case "datetime", "date":
            return (Shortcut(_is("text"), "substr({v}, 1, 10)", cuts=True),)
        case "date", "datetime":
            return (Shortcut(_is("text"), "{v} || ' 00:00:00.000000'"),)
        case "whole" | "exact" | "double", "whole":
            return _to_whole(LARGEST_WHOLE[new.name])
        case "whole" | "exact" | "double", "exact" | "double":
            return _to_number(new)
    return ()


def _to_whole(most: int) -> tuple[Shortcut, ...]:
    inside = f"BETWEEN {_literal(-most - 1)} AND {most}"
    exact = f"BETWEEN {-min(most, _EXACT_DOUBLE)} AND {min(most, _EXACT_DOUBLE)}"
    return (
        Shortcut(f"{_is('integer')} AND {{v}} {inside}"),
        Shortcut(f"{_is('real')} AND {{v}} {exact} AND {{v}} = CAST({{v}} AS INTEGER)", "CAST({v} AS INTEGER)"),
    )


def _to_number(new: ColumnType) -> tuple[Shortcut, ...]:
    if new.family == "double" or new.size is None:
        exact = f"BETWEEN {-_EXACT_DOUBLE} AND {_EXACT_DOUBLE}"
        return (Shortcut(_is("real")), Shortcut(f"{_is('integer')} AND {{v}} {exact}", "CAST({v} AS REAL)"))
    if new.size > _EXACT_DIGITS:
        return ()
    bound = 10 ** (new.size - new.scale)
    inside = f"{{v}} > {-bound} AND {{v}} < {bound}"
    if not new.scale:
        return (Shortcut(f"{_is('integer')} AND {inside}"),)
    return (
        Shortcut(f"{_is('integer')} AND {inside}", "CAST({v} AS REAL)"),
        Shortcut(f"{_is('real')} AND {inside} AND round({{v}}, {new.scale}) = {{v}}"),
    )


def _is(stored: str) -> str:
    return f"typeof({{v}}) = '{stored}'"


def _fits(length: str, size: int | None) -> str:
    return "" if size is None else f" AND {length} <= {size}"


def _literal(number: int) -> str:
    """A whole number in SQL: the least one of 64 bits cannot be written with its sign."""
    return f"({number + 1} - 1)"
