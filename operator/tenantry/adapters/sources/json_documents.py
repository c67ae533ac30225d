"""Files of JSON, read as JSON: YAML knows other escapes, and reads some characters of a text as ends of lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

_DIVIDER = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


class NotJson(Exception):  # noqa: N818 - it says what is wrong with the input
    """A document is not JSON. line: from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


class DuplicateKey(NotJson):
    """A document is JSON, and an object of it has one key twice."""


def begins_as_json(text: str) -> bool:
    """Return True for a text whose first character is a brace, as that of every JSON manifest."""
    return text.lstrip(" \t\r\n").startswith("{")


def json_documents(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the documents, divided by lines of `---`, each with its first line from 1. Raises NotJson."""
    line = 1
    for part in _DIVIDER.split(text):
        body = part.lstrip(" \t\r\n")
        first = line + part[: len(part) - len(body)].count("\n")
        if body:
            yield first, _value(body, first)
        line += part.count("\n") + 1


def _value(body: str, first: int) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            raise DuplicateKey(first, f"the key {next(name for name in names if names.count(name) > 1)!r} appears twice")
        return made

    try:
        # Stricter than the standard library's, which takes NaN and half of a surrogate pair. It keeps no number beyond 64 bits.
        orjson.loads(body)
        return json.loads(body, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise NotJson(first + error.lineno - 1, f"is not JSON: {error.msg}") from None
    except RecursionError:
        raise NotJson(first, "is nested too deep") from None


def depth_and_size(value: Any) -> tuple[int, int]:
    """Return how deep a value is nested, and how many values it holds."""
    deepest = count = 0
    waiting = [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        count += 1
        if isinstance(each, dict | list):
            deepest = max(deepest, depth)
            waiting += [(inner, depth + 1) for inner in (each.values() if isinstance(each, dict) else each)]
    return deepest, count
