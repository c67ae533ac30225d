"""Values of rows: as JSON writes them, as a query spells them, as the database takes them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from tenantry.engine.migration.tables import value_of
from tenantry.engine.packages.defaults import LARGEST
from tenantry.engine.packages.manifest import Column
from tenantry.rest.bodies import invalid

DEEPEST = 64
"""Levels of a json value."""
_WHOLE = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_EXACT_FLOAT_DIGITS = 15
_LONGEST_NUMBER = 100
_FORMS = {
    "boolean": "true or false",
    "double": "a finite number",
    "date": "a date such as 2026-01-31",
    "datetime": "a time such as 2026-01-31T12:00:00Z",
    "uuid": "a UUID such as 123e4567-e89b-42d3-a456-426614174000",
    "blob": "bytes as base64",
    "json": f"JSON of at most {DEEPEST} levels",
}
_REFUSALS = (ValueError, TypeError, ArithmeticError, AttributeError)


def form_of(column: Column) -> str:
    """What a value of that column must be, in words."""
    match column.type:
        case "string":
            return f"a string of at most {column.length} characters"
        case "text":
            return "a string"
        case "integer":
            return f"a whole number from {-LARGEST['integer'] - 1} to {LARGEST['integer']}"
        case "bigint":
            return f"a whole number from {-LARGEST['bigint'] - 1} to {LARGEST['bigint']}, as a string or a number"
        case "decimal":
            return f"a number of at most {column.precision} digits, {column.scale or 0} of them behind the point, as a string"
        case other:
            return _FORMS[other]


def from_json(column: Column, value: Any, field: str) -> Any:
    """A JSON value as the column takes it; null is SQL's NULL. Raises Invalid naming `field`."""
    if value is None:
        return sa.null()
    try:
        _check_plain(column, value)
        return value_of(column, value)
    except _REFUSALS:
        raise invalid(field, f"must be {form_of(column)}") from None


def from_text(column: Column, text: str, field: str) -> Any:
    """A value that a query or a path spells, to compare the column with. Raises Invalid naming `field`."""
    try:
        return _compared(column, text)
    except _REFUSALS:
        raise invalid(field, f"{text[:60]!r} is not {form_of(column)}") from None


def to_json(column: Column, value: Any) -> Any:
    """A value of the database as JSON: decimal and bigint as strings, blob as base64, datetime in UTC with `Z`."""
    if value is None:
        return None
    match column.type:
        case "bigint":
            return str(value)
        case "decimal":
            return format(value, "f")
        case "date":
            return value.isoformat()
        case "datetime":
            return f"{value.isoformat()}Z"
        case "blob":
            return base64.b64encode(value).decode()
        case "uuid":
            return str(value)
        case "json":
            # A seed may hold numbers of more than 64 bits.
            return orjson.Fragment(json.dumps(value))
        case "double":
            return value + 0.0  # PostgreSQL keeps the sign of zero
        case _:
            return value


def row_json(columns: Mapping[str, Column], row: RowMapping) -> dict[str, Any]:
    """The columns that the row has, as JSON, in the order of `columns`."""
    return {name: to_json(column, row[name]) for name, column in columns.items() if name in row}


def _check_plain(column: Column, value: Any) -> None:
    """What value_of lets pass, but a database would refuse or round. Raises ValueError."""
    match column.type:
        case "string" | "text" if "\0" in value:
            raise ValueError("NUL")
        case "decimal" if isinstance(value, bool) or (isinstance(value, str) and len(value) > _LONGEST_NUMBER):
            raise ValueError("no number")
        # The parser of JSON has rounded it to a double already.
        case "decimal" if isinstance(value, float) and len(Decimal(repr(value)).as_tuple().digits) > _EXACT_FLOAT_DIGITS:
            raise ValueError("too precise for a JSON number")
        case "bigint" if isinstance(value, str) and not _WHOLE.fullmatch(value):
            raise ValueError("no whole number")
        case "json" if _deeper(value, DEEPEST):
            raise ValueError("too deep")


def _deeper(value: Any, levels: int) -> bool:
    """Is it nested deeper? Level by level, for what is that deep would exhaust the stack."""
    level = [value]
    for _ in range(levels):
        level = [
            item for one in level if isinstance(one, dict | list) for item in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _compared(column: Column, text: str) -> Any:
    match column.type:
        case "integer" | "bigint":
            if not _WHOLE.fullmatch(text):
                raise ValueError("no whole number")
            return value_of(column, int(text))
        case "decimal":
            number = Decimal(text) if len(text) <= _LONGEST_NUMBER else Decimal("NaN")
            if not number.is_finite() or abs(number.adjusted()) > _LONGEST_NUMBER:
                raise ValueError("no finite number")
            return number
        case "double":
            return value_of(column, float(text))
        case "boolean":
            return value_of(column, {"true": True, "false": False}.get(text, text))
        case "string" | "text":
            if "\0" in text:
                raise ValueError("NUL")
            text.encode()
            return text
        case _:
            return value_of(column, text)


def short_moment(moment: datetime) -> str:
    """How SQLite's CURRENT_TIMESTAMP writes a time: without the fraction that SQLAlchemy writes."""
    return moment.isoformat(" ", "seconds")
