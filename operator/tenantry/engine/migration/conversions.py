"""How the values of a column become those of another type: what stays, what is cut, and what is in the way."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

Value = sa.ColumnElement[Any]
Condition = Callable[[Value], sa.ColumnElement[bool]]

INTEGER_MOST = 2**31 - 1
DOUBLE_EXACT = 2**53
"""Whole numbers up to here are exact as doubles."""
_WHOLE = r"^-?[0-9]{1,18}\Z"
_NUMBER = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?\Z"
_TYPE = re.compile(r"(?P<name>[A-Z ]+?)(?:\((?P<size>\d+)(?:, ?(?P<scale>\d+))?\))?")
_FAMILIES = {
    "TEXT": "text", "VARCHAR": "text", "CHAR": "uuid", "UUID": "uuid", "INTEGER": "whole", "BIGINT": "whole",
    "BOOLEAN": "boolean", "NUMERIC": "exact", "DOUBLE": "double", "DOUBLE PRECISION": "double",
    "DATE": "date", "DATETIME": "datetime",
}  # fmt: skip


@dataclass(frozen=True)
class Conversion:
    """value: the new value. cuts: true for values that lose something; breaks: for those that cannot become the new type."""

    value: Callable[[Value], Value]
    cuts: Condition | None = None
    breaks: Condition | None = None


class _Type(NamedTuple):
    family: str
    name: str
    size: int | None
    scale: int


def conversion(was: str, now: str) -> Conversion:
    """From one type to another, each as DDL spells it."""
    old, new = _parsed(was), _parsed(now)
    match old.family, new.family:
        case "text", "text":
            return _shortened(new.size)
        case "blob" | "json" | "other", _:
            return _IMPOSSIBLE
        case _, "text":
            return _spelled(new.size, exact=old.family != "double")
        case "text", "whole":
            return _whole(new.name, lambda value: sa.cast(value, sa.BigInteger), _unlike(_WHOLE))
        case "text", "exact" | "double":
            return _number(new, lambda value: sa.cast(value, sa.Double), _unlike(_NUMBER))
        case "boolean" | "whole" | "exact" | "double", "whole":
            return _whole(new.name, lambda value: value)
        case "whole" | "exact" | "double", "exact" | "double":
            return _number(new, lambda value: value)
        case "whole", "boolean":
            return Conversion(_itself, breaks=lambda value: value.not_in((0, 1)))
        case "datetime", "date":
            return Conversion(sa.func.date, cuts=_any)
        case "date", "datetime":
            return Conversion(sa.func.datetime)
        case _:
            return _IMPOSSIBLE


def _parsed(spelled: str) -> _Type:
    found = _TYPE.fullmatch(spelled)
    if found is None:
        return _Type("other", spelled, None, 0)
    size = int(found["size"]) if found["size"] else None
    return _Type(_FAMILIES.get(found["name"], "other"), found["name"], size, int(found["scale"] or 0))


def _itself(value: Value) -> Value:
    return value


def _any(value: Value) -> sa.ColumnElement[bool]:
    return value.is_not(None)


_IMPOSSIBLE = Conversion(_itself, breaks=_any)


def _shortened(size: int | None) -> Conversion:
    if size is None:
        return Conversion(_itself)
    return Conversion(lambda value: sa.func.substr(value, 1, size), cuts=lambda value: sa.func.length(value) > size)


def _spelled(size: int | None, *, exact: bool) -> Conversion:
    def text(value: Value) -> Value:
        return sa.cast(value, sa.Text)

    cuts: Condition | None = None if exact else lambda value: sa.cast(text(value), sa.Double) != value
    breaks: Condition | None = None if size is None else lambda value: sa.func.length(text(value)) > size
    return Conversion(text, cuts, breaks)


def _whole(name: str, read: Callable[[Value], Value], unreadable: Condition | None = None) -> Conversion:
    def rounded(value: Value) -> Value:
        return sa.cast(sa.func.round(read(value)), sa.BigInteger)

    def outside(value: Value) -> sa.ColumnElement[bool]:
        return sa.func.abs(read(value)) > INTEGER_MOST

    limit = outside if name == "INTEGER" else None
    # A whole number must not pass through round(), which makes doubles of large ones.
    return Conversion(
        lambda value: sa.case(
            (sa.cast(read(value), sa.BigInteger) == read(value), sa.cast(read(value), sa.BigInteger)), else_=rounded(value)
        ),
        cuts=lambda value: sa.cast(read(value), sa.BigInteger) != read(value),
        breaks=_either(unreadable, limit),
    )


def _number(new: _Type, read: Callable[[Value], Value], unreadable: Condition | None = None) -> Conversion:
    if new.family == "double" or new.size is None:
        return Conversion(
            lambda value: sa.cast(read(value), sa.Double),
            cuts=lambda value: sa.func.abs(read(value)) > DOUBLE_EXACT,
            breaks=unreadable,
        )
    bound = 10 ** (new.size - new.scale)

    def rounded(value: Value) -> Value:
        return sa.func.round(read(value), new.scale)

    return Conversion(
        rounded,
        cuts=lambda value: rounded(value) != read(value),
        breaks=_either(unreadable, lambda value: sa.func.abs(rounded(value)) >= bound),
    )


def _unlike(pattern: str) -> Condition:
    return lambda value: sa.not_(sa.cast(value, sa.Text).regexp_match(pattern))


def _either(first: Condition | None, second: Condition | None) -> Condition | None:
    if first is None or second is None:
        return first or second
    return lambda value: sa.or_(first(value), second(value))
