"""Column types as DDL spells them, parsed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

LARGEST_WHOLE = {"INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1}
WHOLE_TEXT = r"^-?[0-9]{1,18}\Z"
"""Texts that become whole numbers."""
NUMBER_TEXT = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?\Z"
"""Texts that become decimals and doubles."""
_TYPE = re.compile(r"(?P<name>[A-Z ]+?)(?:\((?P<size>\d+)(?:, ?(?P<scale>\d+))?\))?")
_FAMILIES = {
    "TEXT": "text", "VARCHAR": "text", "CHAR": "uuid", "UUID": "uuid", "INTEGER": "whole", "BIGINT": "whole",
    "BOOLEAN": "boolean", "NUMERIC": "exact", "DOUBLE": "double", "DOUBLE PRECISION": "double",
    "DATE": "date", "DATETIME": "datetime", "TIMESTAMP WITHOUT TIME ZONE": "datetime",
}  # fmt: skip


class ColumnType(NamedTuple):
    """family: types that hold the same kind of value. size: characters or digits, None without a limit; scale: decimal places."""

    family: str
    name: str
    size: int | None
    scale: int


@lru_cache(maxsize=256)
def parse_type(spelled: str) -> ColumnType:
    """The parsed type; family `other` for a type that the engine never declares."""
    found = _TYPE.fullmatch(spelled)
    if found is None:
        return ColumnType("other", spelled, None, 0)
    size = int(found["size"]) if found["size"] else None
    return ColumnType(_FAMILIES.get(found["name"], "other"), found["name"], size, int(found["scale"] or 0))
