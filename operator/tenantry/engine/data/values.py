"""Values of rows: as JSON writes them, as a query spells them, as the database takes them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from tenantry.packages.manifest import Column
from tenantry.packages.values import DEEPEST, form_of, in_range, value_of
from tenantry.rest.bodies import invalid
from tenantry.rest.fairness.json_steps import encode_json

Reader = Callable[[Any], Any]
_WHOLE = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_EXACT_FLOAT_DIGITS = 15
_LONGEST_NUMBER = 100
_PLAIN = frozenset({"integer", "string", "text"})
_CONTAINERS = frozenset({dict, list})
_REFUSALS = (ValueError, TypeError, ArithmeticError, AttributeError)


def from_json(column: Column, value: Any, field: str) -> Any:
    """A JSON value as the column takes it; null is SQL's NULL. Raises Invalid naming `field`."""
    if value is None:
        return sa.null()
    try:
        _check_plain(column, value)
        return value_of(column, value)
    except _REFUSALS:
        without = ", without the character U+0000" if isinstance(value, str) and "\0" in value else ""
        raise invalid(field, f"must be {form_of(column)}{without}") from None


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
            return orjson.Fragment(encode_json(value))
        case "double":
            return value + 0.0  # PostgreSQL keeps the sign of zero
        case _:
            return value


def row_json(columns: Mapping[str, Column], row: RowMapping) -> dict[str, Any]:
    """The columns that the row has, as JSON, in the order of `columns`."""
    return {name: to_json(column, row[name]) for name, column in columns.items() if name in row}


def _check_plain(column: Column, value: Any) -> None:
    """Refuse values that value_of accepts, but a database would refuse or round. Raises ValueError."""
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
    """Return True if the value is nested deeper. Level by level, because a deep value would exhaust the stack."""
    level = [value]
    for _ in range(levels):
        # A parser of JSON makes no others, and a comparison of types takes a sixth of the time of isinstance with a union.
        containers = [one for one in level if one and type(one) in _CONTAINERS]
        level = [item for one in containers for item in (one.values() if type(one) is dict else one)]
        if not level:
            return False
    return True


def _compared(column: Column, text: str) -> Any:
    match column.type:
        case "integer" | "bigint":
            if not _WHOLE.fullmatch(text):
                raise ValueError("no whole number")
            return in_range(int(text), column.type)
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


def json_readers(columns: Sequence[Column], readers: Sequence[Reader | None]) -> list[tuple[int, str, Reader]]:
    """The columns whose values are not JSON as the driver gives them: their places and names, and what makes them JSON."""
    made = []
    for place, (column, reader) in enumerate(zip(columns, readers, strict=False)):
        if reader is not None or column.type not in _PLAIN:
            made.append((place, column.name, _json_reader(column, reader)))
    return made


def _json_reader(column: Column, reader: Reader | None) -> Reader:
    if reader is None:
        return lambda value: to_json(column, value)
    return lambda value: to_json(column, reader(value))


def row_of(names: Sequence[str], row: Sequence[Any], readers: Sequence[tuple[int, str, Reader]]) -> dict[str, Any]:
    """A row as JSON, by the names of its first columns."""
    shown = dict(zip(names, row, strict=False))
    for place, name, reader in readers:
        shown[name] = reader(row[place])
    return shown
