"""The default of a column: does it fit the column's type?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson

from tenantry.model.wording import counted

LARGEST = {"integer": 2**31 - 1, "bigint": 2**63 - 1}


def check_default(kind: str, length: int | None, default: Any, digits: tuple[int, int] = (0, 0)) -> None:
    """Raises ValueError saying what a default of that type of column must be. digits: precision and scale of a decimal."""
    if isinstance(default, int | float) and not _holds(lambda: math.isfinite(default)):  # an int may be too large for a float
        raise ValueError("default must be a finite number")
    wanted = _wanted(kind, length, digits, default)
    if wanted:
        raise ValueError(f"default of a {kind} column must be {wanted}")


def _wanted(kind: str, length: int | None, digits: tuple[int, int], default: Any) -> str:
    """Return the form that the default must have, `""` if it fits."""
    number = isinstance(default, int | float) and not isinstance(default, bool)
    match kind:
        case "integer" | "bigint":
            fits = isinstance(default, int) and number and -LARGEST[kind] - 1 <= default <= LARGEST[kind]
            return "" if fits else f"a whole number of at most {LARGEST[kind]}"
        case "decimal":
            precision, scale = digits
            fits = number and _holds(lambda: _fits_digits(precision, scale, default))
            return "" if fits else f"a number of at most {counted(precision, 'digit')}, {scale} of them after the point"
        case "double":
            return "" if number else "a number"
        case "boolean":
            return "" if isinstance(default, bool) else "true or false"
        case "string" | "text":
            # `now` and `uuid` would be words here, which nobody means.
            text = isinstance(default, str) and "\0" not in default and _holds(lambda: bool(default.encode() or True))
            fits = text and default not in ("now", "uuid") and (length is None or len(default) <= length)
            most = f" of at most {counted(length, 'character')}" if length else ""
            return "" if fits else f"a string{most} without NUL, and not now or uuid"
        case "date" | "datetime":
            fits = default == "now" or _holds(lambda: _is_moment(kind, default))
            return "" if fits else "now, or a quoted ISO 8601 string"
        case "json":
            return "" if _holds(lambda: _is_json(default)) else "a string that holds JSON"
        case "uuid":
            return "" if default == "uuid" else "uuid"
        case _:
            return "absent"


def _holds(check: Callable[[], bool]) -> bool:
    """Return True if the check is true and can be evaluated at all."""
    try:
        return check()
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return False


def _fits_digits(precision: int, scale: int, default: float) -> bool:
    number = Decimal(repr(default))
    return number == round(number, scale) and abs(number) < 10 ** (precision - scale)


def _is_moment(kind: str, default: Any) -> bool:
    if kind == "date":
        date.fromisoformat(default)
    else:
        datetime.fromisoformat(default).astimezone(UTC)  # as it is stored: near the first and the last year UTC has no such date
    return True


def _is_json(default: Any) -> bool:
    """Return True for JSON that comes out of the database unchanged."""
    orjson.dumps(json.loads(default))
    orjson.loads(default)  # knows neither NaN nor half a surrogate pair
    return True
