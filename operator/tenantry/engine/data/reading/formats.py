"""The forms of a list: a JSON array, NDJSON and CSV, by the header `Accept`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

Row = dict[str, Any]
_SPECIAL = frozenset(',"\r\n')


@dataclass(frozen=True)
class Format:
    """row: the bytes of one row; head: what comes before all rows, from the names of their fields; array: rows are the items
    of a JSON array, so they cannot be sent in parts."""

    media_type: str
    row: Callable[[Row], bytes]
    head: Callable[[Sequence[str]], bytes]
    array: bool = False

    def whole(self, names: Sequence[str], rows: Sequence[bytes], first: bool) -> bytes:
        """A page. first: it is the first one of its list."""
        if self.array:
            return b"[" + b",".join(rows) + b"]"
        return (self.head(names) if first else b"") + b"".join(rows)


def _ndjson(row: Row) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _csv(row: Row) -> bytes:
    return _line([_cell(value) for value in row.values()])


def _cell(value: Any) -> str:
    """The text of a cell: nothing for null, quotes around an empty text, JSON for what is no scalar."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    if not isinstance(value, str) and text == "null":  # a double that JSON does not have, and a json value of null
        return ""
    if text and _SPECIAL.isdisjoint(text) and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _line(cells: Sequence[str]) -> bytes:
    return (",".join(cells) + "\r\n").encode()


JSON = Format("application/json", orjson.dumps, lambda names: b"", array=True)
NDJSON = Format("application/x-ndjson", _ndjson, lambda names: b"")
CSV = Format("text/csv; charset=utf-8; header=present", _csv, _line)
_BY_TYPE = {"application/json": JSON, "application/x-ndjson": NDJSON, "text/csv": CSV, "application/*": JSON, "*/*": JSON}
TYPES = ("text/csv", "application/x-ndjson")
"""The media types of lists besides JSON."""


def format_of(accept: str) -> Format:
    """The form that the header prefers; JSON for a header without a known type."""
    best, found = 0.0, JSON
    for part in accept.split(","):
        name, *parameters = (one.strip().lower() for one in part.split(";"))
        weight = next((_weight(one[2:]) for one in parameters if one.startswith("q=")), 1.0)
        if name in _BY_TYPE and weight > best:
            best, found = weight, _BY_TYPE[name]
    return found


def _weight(text: str) -> float:
    digits = text.replace(".", "", 1)
    return float(text) if digits.isascii() and digits.isdecimal() and len(text) <= 5 else 0.0
