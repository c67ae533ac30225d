"""The fields in which two declarations of an object differ. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

NO_VALUE = "(none)"
LONGEST_VALUE = 80


class Field(NamedTuple):
    """A declared field that differs. before, after: JSON, `""` if there is none; neither is shown for a Secret."""

    path: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        if not self.before and not self.after:
            return self.path
        return f"{self.path}: {_shortened(self.before)} -> {_shortened(self.after)}"


def differing(before: Any, after: Any, path: str, secret: bool) -> Iterable[Field]:
    """Return the fields in which two declarations differ, in order of their paths. secret: hides their values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differing(before.get(key), after.get(key), f"{path}.{key}", secret)
    elif before != after:
        yield Field(path) if secret else Field(path, _json(before), _json(after))


def _json(value: Any) -> str:
    return NO_VALUE if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
