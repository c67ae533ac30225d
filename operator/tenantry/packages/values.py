"""Values of seeds and requests, as the columns of a package take them. Pure."""

from __future__ import annotations

import base64
import math
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import Any, TypeVar

from tenantry.model.wording import counted
from tenantry.packages.defaults import LARGEST
from tenantry.packages.manifest import Column, Table

T = TypeVar("T")
DEEPEST = 64
"""Levels of a json value that comes by the data API."""
_FORMS = {
    "boolean": "true or false",
    "double": "a finite number",
    "date": "a date such as 2026-01-31",
    "datetime": "a time such as 2026-01-31T12:00:00Z",
    "uuid": "a UUID such as 123e4567-e89b-42d3-a456-426614174000",
    "blob": "bytes as base64",
    "json": f"JSON of at most {DEEPEST} levels",
}


def value_of(column: Column, value: Any) -> Any:
    """A seed's JSON value as the column takes it. Raises ValueError, ArithmeticError or TypeError saying what does not fit."""
    if value is None:
        return None
    match column.type:
        case "integer" | "bigint":
            return _whole(value, column.type)
        case "string" | "text":
            return _string(value, column.length)
        case "decimal":
            return _decimal(value, column.precision or 0, column.scale or 0)
        case "double":
            return _double(value)
        case "boolean":
            return _exactly(bool, value)
        case "date":
            return date.fromisoformat(value)
        case "datetime":
            return moment_of(value)
        case "uuid":
            return uuid.UUID(value)
        case "blob":
            return base64.b64decode(value, validate=True)
        case "json":
            return value


def form_of(column: Column) -> str:
    """Return the form of the column's values, in words."""
    match column.type:
        case "string":
            return f"a string of at most {counted(column.length or 0, 'character')}"
        case "text":
            return "a string"
        case "integer":
            return f"a whole number from {-LARGEST['integer'] - 1} to {LARGEST['integer']}"
        case "bigint":
            return f"a whole number from {-LARGEST['bigint'] - 1} to {LARGEST['bigint']}, as a string or a number"
        case "decimal":
            digits = counted(column.precision or 0, "digit")
            return f"a number of at most {digits}, {column.scale or 0} of them after the point, as a string"
        case other:
            return _FORMS[other]


def default_of_key(table: Table) -> dict[str, Any]:
    """The default of an integer that is the whole primary key: SQLite would number such rows instead."""
    key = [column for column in table.columns if (column.name,) == table.primary_key]
    return {column.name: column.default for column in key if column.type == "integer" and column.default is not None}


def _whole(value: Any, kind: str) -> int:
    return in_range(int(value) if isinstance(value, str) and kind == "bigint" else _exactly(int, value), kind)


def in_range(number: int, kind: str) -> int:
    """Return the number. Raises ValueError if a column of that type does not hold it."""
    if not -LARGEST[kind] - 1 <= number <= LARGEST[kind]:
        raise ValueError(f"{number} is out of range")
    return number


def _string(value: Any, length: int | None) -> str:
    text = _exactly(str, value)
    if length is not None and len(text) > length:
        raise ValueError(f"has {counted(len(text), 'character')}, more than {length}")
    text.encode()  # Half of a surrogate pair is valid in JSON and nowhere else.
    return text


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value) + 0.0  # -0.0 becomes 0.0: SQLite does not keep its sign


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    number = Decimal(str(value))
    if not number.is_finite():
        raise ValueError(f"{value!r} is not a finite number")
    with localcontext(prec=2 * precision + 2):
        if abs(number) >= Decimal(10) ** (precision - scale) or round(number, scale) != number:
            raise ValueError(f"{value} has more than {counted(precision, 'digit')}, or more than {scale} after the point")
    return number


def moment_of(value: str) -> datetime:
    """Return the moment in UTC, without an offset, as it is stored. Raises ValueError."""
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _exactly(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value
