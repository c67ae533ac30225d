"""The rules by which values of one column type become values of another, in Python.

SQLite calls them as functions. On PostgreSQL, migration/conversions.py spells the same rules in SQL; the tests compare the two.
"""

from __future__ import annotations

import re
import sqlite3
import uuid
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from tenantry.engine.migration.types import LARGEST_WHOLE, NUMBER_TEXT, WHOLE_TEXT, ColumnType, parse_type

CONVERTED = "tenantry_converted"
CUTS = "tenantry_cuts"
BREAKS = "tenantry_breaks"
"""The functions' names on SQLite. Each takes a value and the two types."""

_WHOLE = re.compile(WHOLE_TEXT)
_NUMBER = re.compile(NUMBER_TEXT)
_EXACT = Context(prec=120)
_FIXED_DIGITS = range(-4, 15)
"""Powers of ten of the first digit for which PostgreSQL writes a double without an exponent."""


class Result(NamedTuple):
    """value: the new value, None where there can be none. cuts: does it lose something? breaks: can it not be converted?"""

    value: Any
    cuts: bool = False
    breaks: bool = False


_IMPOSSIBLE = Result(None, breaks=True)


def convert(value: Any, was: str, now: str) -> Result:
    """A value as SQLite stores it, from one type to another. NULL stays NULL."""
    if value is None:
        return Result(None)
    old, new = parse_type(was), parse_type(now)
    match old.family, new.family:
        case "blob" | "json" | "other", _:
            return _IMPOSSIBLE
        case "text", "text":
            return Result(value[: new.size], cuts=new.size is not None and len(value) > new.size)
        case _, "text":
            text = text_of(value, old)
            return _IMPOSSIBLE if new.size is not None and len(text) > new.size else Result(text)
        case "text", "whole":
            return _whole(Decimal(value), new) if _WHOLE.match(value) else _IMPOSSIBLE
        case "text", "exact" | "double":
            return _number(Decimal(value), new) if _NUMBER.match(value) else _IMPOSSIBLE
        case "boolean", "whole":
            return Result(int(value))
        case "whole" | "exact" | "double", "whole":
            return _whole(_decimal(value), new)
        case "whole" | "exact" | "double", "exact" | "double":
            return _number(_decimal(value), new)
        case "whole", "boolean":
            return Result(value) if value in (0, 1) else _IMPOSSIBLE
        case "datetime", "date":
            return Result(value[:10], cuts=True)
        case "date", "datetime":
            return Result(f"{value} 00:00:00.000000")
        case _:
            return _IMPOSSIBLE


def text_of(value: Any, of: ColumnType) -> str:
    """The one text form of a value of that type, on both databases: what the data API shows, and doubles as PostgreSQL does."""
    match of.family:
        case "boolean":
            return "true" if value else "false"
        case "exact":
            return format(_decimal(value), f".{of.scale}f")
        case "double":
            return _double_text(value)
        case "datetime":
            return f"{datetime.fromisoformat(value).isoformat()}Z"
        case "uuid":
            return str(uuid.UUID(value))
        case _:
            return str(value)


def install_rules(connection: sqlite3.Connection) -> None:
    """Gives a connection the three functions."""
    connection.create_function(CONVERTED, 3, lambda value, was, now: _cached(value, was, now).value, deterministic=True)
    connection.create_function(CUTS, 3, lambda value, was, now: _cached(value, was, now).cuts, deterministic=True)
    connection.create_function(BREAKS, 3, lambda value, was, now: _cached(value, was, now).breaks, deterministic=True)


@lru_cache(maxsize=8)
def _cached(value: Any, was: str, now: str) -> Result:
    # One row asks up to three times for the same value. 1 and 1.0 are the same key, and convert alike.
    return convert(value, was, now)


def _decimal(value: int | float) -> Decimal:
    """The number that the shortest text of a double names."""
    return Decimal(repr(value))


def _whole(number: Decimal, new: ColumnType) -> Result:
    most = LARGEST_WHOLE[new.name]
    if not -most - 1 <= number <= most:
        return _IMPOSSIBLE
    rounded = number.quantize(Decimal(1), ROUND_HALF_UP, _EXACT)
    return _IMPOSSIBLE if not -most - 1 <= rounded <= most else Result(int(rounded), cuts=rounded != number)


def _number(number: Decimal, new: ColumnType) -> Result:
    if new.family == "double" or new.size is None:
        double = float(number) + 0.0  # without the sign of zero, which SQLite does not keep
        return Result(double, cuts=_decimal(double) != number)
    rounded = number.quantize(Decimal(1).scaleb(-new.scale), ROUND_HALF_UP, Context(prec=400))
    if rounded.copy_abs() >= 10 ** (new.size - new.scale):
        return _IMPOSSIBLE
    return Result(float(rounded) if new.scale else int(rounded), cuts=rounded != number)


def _double_text(value: float) -> str:
    sign, digits, exponent = Decimal(repr(float(value))).as_tuple()
    assert isinstance(exponent, int)
    plain = "".join(map(str, digits)).rstrip("0")
    if not plain:
        return "0"
    exponent += len(digits) - len(plain)
    power = len(plain) + exponent - 1
    if power in _FIXED_DIGITS:
        text = format(Decimal((0, tuple(map(int, plain)), exponent)), "f")
    else:
        text = f"{plain[0]}{'.' if plain[1:] else ''}{plain[1:]}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return f"-{text}" if sign else text
