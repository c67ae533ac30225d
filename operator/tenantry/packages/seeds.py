"""The rows of a package's seeds: lines of JSON, each value as its column takes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.manifest import Column, Table
from tenantry.packages.values import default_of_key, form_of, value_of

NumberedRow = tuple[int, dict[str, Any]]
"""The number of a line, from 1, and its row."""
LONGEST_SHOWN = 60
"""Characters of a refused value that are shown."""


def place_of(table: Table, number: int) -> str:
    """Return file and line of a row."""
    return f"seed/{table.name}.ndjson:{number}"


def rows_of(table: Table, lines: Iterable[bytes]) -> Iterator[NumberedRow]:
    """Yield the rows of a seed file, each with the columns that its line names. Raises Invalid naming file and line."""
    columns, default = {column.name: column for column in table.columns}, default_of_key(table)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
            row = {**default, **{name: _value(columns[name], value) for name, value in given.items()}}
        except (ValueError, KeyError, AttributeError, RecursionError) as error:
            raise _misfit(table, number, _reason(error)) from error
        yield number, row


def check_rows(table: Table, lines: Iterable[bytes]) -> None:
    """Read a seed as an installation would, and store nothing. Raises Invalid naming file and line."""
    filled = {column.name: None if column.default is None else "" for column in table.columns if not column.generated}
    required = {column.name for column in table.columns if not column.nullable} & filled.keys()
    for number, row in rows_of(table, lines):
        lacking = sorted(name for name in required if row.get(name, filled[name]) is None)
        if lacking:
            raise _misfit(table, number, f"column {lacking[0]} must have a value")


def _value(column: Column, value: Any) -> Any:
    """The value as its column takes it. Raises ValueError naming the column and what it takes."""
    try:
        return value_of(column, value)
    except UnicodeEncodeError as error:
        raise ValueError(f"column {column.name} holds half of a surrogate pair, which is not a character") from error
    except (ValueError, AttributeError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"column {column.name} must be {form_of(column)}, not {_shown(value)}") from error


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (ValueError, RecursionError):
        text = "this value"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _misfit(table: Table, number: int, reason: str) -> Invalid:
    return Invalid((Problem(place_of(table, number), f"does not fit the table: {reason}"),))


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no column {error}"
    if isinstance(error, json.JSONDecodeError | AttributeError | RecursionError | UnicodeDecodeError):
        return 'the line must be one JSON object, such as {"Name": "Rock"}'
    return str(error)
