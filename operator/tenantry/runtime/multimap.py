"""Many keys with few values each, in little room.

A dict for each key takes 230 bytes, and most keys of an index have one value. A dict also keeps the room of the most entries
that it ever had.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)
T = TypeVar("T")
SPARE = 2048
"""Bytes that a dict may take beyond those of its entries."""
EACH = 240
"""Bytes of a dict for each entry, from which on it is made anew: it takes about 30 when it is full."""


def trimmed(held: dict[K, T]) -> dict[K, T]:
    """Return the dict, or a small copy of one that has lost most of its entries: a dict never gives room back by itself."""
    return held if held.__sizeof__() < SPARE + EACH * len(held) else dict(held)


class Multimap(Generic[K, V]):
    """Values by key, in the order in which they came. Values are not dicts."""

    def __init__(self) -> None:
        self._held: dict[K, V | dict[V, None]] = {}

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._held)

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def get(self, key: K) -> Collection[V]:
        """Return the values of a key. They change with the map."""
        held = self._held.get(key, _NONE)
        if held is _NONE:
            return ()
        return held if type(held) is dict else (held,)  # type: ignore[return-value]

    def add(self, key: K, value: V) -> None:
        """Add a value to those of a key."""
        held = self._held.get(key, _NONE)
        if held is _NONE:
            self._held[key] = value
        elif type(held) is dict:
            held[value] = None
        elif held != value:
            self._held[key] = {held: None, value: None}  # type: ignore[dict-item]

    def discard(self, key: K, value: V) -> None:
        """Remove a value of a key, if it is there."""
        held = self._held.get(key, _NONE)
        if type(held) is dict:
            held.pop(value, None)
            self._held[key] = next(iter(held)) if len(held) == 1 else trimmed(held)
        elif held == value:
            del self._held[key]
            self._held = trimmed(self._held)


_NONE = object()
