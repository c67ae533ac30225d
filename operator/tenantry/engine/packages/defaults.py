"""The default of a column: does it fit the column's type?"""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

LARGEST = {"integer": 2**31 - 1, "bigint": 2**63 - 1}


def check_default(kind: str, length: int | None, default: Any, digits: tuple[int, int] = (0, 0)) -> None:
    """Raises ValueError saying what a default of that type of column must be. digits: precision and scale of a decimal."""
    if isinstance(default, float) and not math.isfinite(default):
        raise ValueError("default must be a finite number")
    wanted = _wanted(kind, length, default) or (_wanted_decimal(*digits, default) if kind == "decimal" else "")
    if wanted:
        raise ValueError(f"default of a {kind} column must be {wanted}")


def _wanted(kind: str, length: int | None, default: Any) -> str:
    """What it must be, `""` where it fits."""
    number = isinstance(default, int | float) and not isinstance(default, bool)
    match kind:
        case "integer" | "bigint":
            fits = isinstance(default, int) and number and -LARGEST[kind] - 1 <= default <= LARGEST[kind]
            return "" if fits else f"a whole number of at most {LARGEST[kind]}"
        case "decimal" | "double":
            return "" if number else "a number"
        case "boolean":
            return "" if isinstance(default, bool) else "true or false"
        case "string" | "text":
            # `now` and `uuid` would be words here, which nobody means.
            fits = isinstance(default, str) and default not in ("now", "uuid") and (length is None or len(default) <= length)
            return "" if fits else "a string" + (f" of at most {length} characters" if length else "") + ", and not now or uuid"
        case "date" | "datetime":
            return "" if default == "now" or _is_moment(kind, default) else "now, or a quoted ISO 8601 string"
        case "json":
            return "" if _is_json(default) else "a string that holds JSON"
        case "uuid":
            return "" if default == "uuid" else "uuid"
        case _:
            return "absent"


def _wanted_decimal(precision: int, scale: int, default: float) -> str:
    number = Decimal(repr(default))
    fits = number == round(number, scale) and abs(number) < 10 ** (precision - scale)
    return "" if fits else f"a number of at most {precision} digits, {scale} of them behind the point"


def _is_moment(kind: str, default: Any) -> bool:
    try:
        (date if kind == "date" else datetime).fromisoformat(default)
    except (ValueError, TypeError):
        return False
    return True


def _is_json(default: Any) -> bool:
    try:
        json.loads(default)
    except (ValueError, TypeError):
        return False
    return True
