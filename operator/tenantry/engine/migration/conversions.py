"""How the values of a column become those of another type: what stays, what is cut, and what is in the way."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from tenantry.engine.database import ExactNumber, Midnight

Value = sa.ColumnElement[Any]
Condition = Callable[[Value], sa.ColumnElement[bool]]

MOST = {"INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1}
_WHOLE = r"^-?[0-9]{1,18}\Z"
_NUMBER = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?\Z"
_TYPE = re.compile(r"(?P<name>[A-Z ]+?)(?:\((?P<size>\d+)(?:, ?(?P<scale>\d+))?\))?")
_FAMILIES = {
    "TEXT": "text", "VARCHAR": "text", "CHAR": "uuid", "UUID": "uuid", "INTEGER": "whole", "BIGINT": "whole",
    "BOOLEAN": "boolean", "NUMERIC": "exact", "DOUBLE": "double", "DOUBLE PRECISION": "double",
    "DATE": "date", "DATETIME": "datetime", "TIMESTAMP WITHOUT TIME ZONE": "datetime",
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
            return _spelled(new.size, _flag_text if old.family == "boolean" else _text, exact=old.family != "double")
        case "text", "whole":
            return _whole(new.name, _reader(_WHOLE), _unlike(_WHOLE))
        case "text", "exact" | "double":
            return _number(new, _reader(_NUMBER), _unlike(_NUMBER))
        case "boolean", "whole":
            return Conversion(lambda value: sa.cast(value, sa.Integer))
        case "whole" | "exact" | "double", "whole":
            return _whole(new.name, ExactNumber if old.family == "double" else _itself)
        case "whole" | "exact" | "double", "exact" | "double":
            return _number(new, ExactNumber if old.family == "double" else _itself)
        case "whole", "boolean":
            return Conversion(lambda value: value != 0, breaks=lambda value: value.not_in((0, 1)))
        case "datetime", "date":
            return Conversion(sa.func.date, cuts=_any)
        case "date", "datetime":
            return Conversion(Midnight)
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


_IMPOSSIBLE = Conversion(lambda value: sa.null(), breaks=_any)


def _shortened(size: int | None) -> Conversion:
    if size is None:
        return Conversion(_itself)
    return Conversion(lambda value: sa.func.substr(value, 1, size), cuts=lambda value: sa.func.length(value) > size)


def _text(value: Value) -> Value:
    return sa.cast(value, sa.Text)


def _flag_text(value: Value) -> Value:
    return sa.case((value == sa.true(), "true"), (value == sa.false(), "false"))


def _spelled(size: int | None, text: Callable[[Value], Value], *, exact: bool) -> Conversion:
    cuts: Condition | None = None if exact else lambda value: sa.cast(text(value), sa.Double) != value
    breaks: Condition | None = None if size is None else lambda value: sa.func.length(text(value)) > size
    return Conversion(text, cuts, breaks)


def _reader(pattern: str) -> Callable[[Value], Value]:
    """Texts of that pattern as numbers, others as NULL: PostgreSQL's casts fail on them, also where they do not count."""
    return lambda value: sa.case((sa.cast(value, sa.Text).regexp_match(pattern), sa.cast(value, sa.Numeric)))


def _whole(name: str, read: Callable[[Value], Value], unreadable: Condition | None = None) -> Conversion:
    most = MOST[name]

    def inside(value: Value) -> sa.ColumnElement[bool]:
        return read(value).between(-most - 1, most)

    def whole(value: Value) -> Value:
        return sa.case((inside(value), sa.cast(read(value), sa.BigInteger)))

    # A whole number must not pass through round(), which makes doubles of large ones.
    return Conversion(
        lambda value: sa.case(
            (whole(value) == read(value), whole(value)),
            (inside(value), sa.cast(sa.func.round(read(value)), sa.BigInteger)),
        ),
        cuts=lambda value: whole(value) != read(value),
        breaks=_either(unreadable, lambda value: sa.not_(inside(value))),
    )


def _number(new: _Type, read: Callable[[Value], Value], unreadable: Condition | None = None) -> Conversion:
    if new.family == "double" or new.size is None:
        return Conversion(
            lambda value: sa.cast(read(value), sa.Double),
            cuts=lambda value: ExactNumber(sa.cast(read(value), sa.Double)) != read(value),
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


def _either(first: Condition | None, second: Condition) -> Condition:
    return second if first is None else lambda value: sa.or_(first(value), second(value))
