"""Rows that a request gives: one, an array, or the lines of NDJSON, each with the place that an error names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request

from tenantry.rest.bodies import invalid, load_json

NDJSON = "application/x-ndjson"
BODY_LIMIT = 8 << 20
"""Bytes of a JSON body, and of a line."""
LINES_LIMIT = 64 << 20
"""Bytes of an NDJSON body."""
MOST_LINES = 200_000
MOST_CONTAINERS, MOST_VALUES = 50_000, 200_000
"""Arrays and objects of a body, counted before it is parsed: 8 MiB of empty ones would take 2 GiB."""
CHUNK = 256
"""Rows that are parsed, checked and inserted at once."""
_READ = 64 << 10
"""Bytes of a file that are read at once; a line up to that size is parsed without a look at its values."""
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')

Place = Callable[[int], str]
"""The words before the column in an error about the row with that number."""


@dataclass(frozen=True)
class Chunk:
    """Some rows, with the number of each."""

    numbers: Sequence[int]
    rows: Sequence[Any]

    def lines(self, number: int) -> str:
        """The place of its row with that number."""
        return in_line(self.numbers[number])


def in_array(number: int) -> str:
    """The place of a row of an array."""
    return f"[{number}]."


def in_line(number: int) -> str:
    """The place of a row of NDJSON."""
    return f"line {number}, "


def alone(_: int) -> str:
    """The place of a row that is the whole body."""
    return ""


def is_lines(request: Request) -> bool:
    """Return True if the body is NDJSON by its type."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == NDJSON


def parsed(raw: bytes, field: str = "body") -> Any:
    """A JSON body. Raises Invalid."""
    if raw.count(b"[") + raw.count(b"{") > MOST_CONTAINERS:
        raise invalid(field, f"holds more than {MOST_CONTAINERS} arrays and objects")
    if raw.count(b",") > MOST_VALUES and _STRINGS.sub(b"", raw).count(b",") > MOST_VALUES:
        raise invalid(field, f"holds more than {MOST_VALUES} values")
    return load_json(raw, field)


def array_chunks(rows: Sequence[Any]) -> Iterator[Chunk]:
    """The rows of an array."""
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        yield Chunk(range(start, start + len(some)), some)


def line_chunks(path: Path) -> Iterator[Chunk]:
    """The rows of a file of NDJSON, with constant memory. Blank lines have a number and no row.

    Raises Invalid naming the line that is not JSON, too long or too many.
    """
    numbers: list[int] = []
    rows: list[Any] = []
    size = 0
    for number, line in _lines(path):
        numbers.append(number)
        rows.append(_row(line, number))
        size += len(line)
        if len(rows) == CHUNK or size > _READ:
            yield Chunk(numbers, rows)
            numbers, rows, size = [], [], 0
    if rows:
        yield Chunk(numbers, rows)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    with path.open("rb", buffering=_READ) as file:
        while line := file.readline(BODY_LIMIT + 1):
            number += 1
            if len(line) > BODY_LIMIT:
                raise invalid(f"line {number}", f"is longer than {BODY_LIMIT} bytes")
            if line.isspace():
                continue
            if number > MOST_LINES:
                raise invalid("body", f"has more than {MOST_LINES} lines: send it in parts")
            yield number, line


def _row(line: bytes, number: int) -> Any:
    if len(line) > _READ:
        return parsed(line, f"line {number}")
    return load_json(line, f"line {number}")
