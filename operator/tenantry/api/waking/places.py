"""The number of requests that may wait for engines at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

PER_ENVIRONMENT = 100
IN_ALL = 1000


class NoPlaceLeft(Exception):  # noqa: N818 - an answer, not an error
    """As many requests wait as may."""


class WaitingPlaces:
    """Places of requests that wait."""

    def __init__(self, per_environment: int = PER_ENVIRONMENT, in_all: int = IN_ALL) -> None:
        self._per_environment = per_environment
        self._in_all = in_all
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, environment: str) -> Iterator[None]:
        """Take a place until the end of the block. Raises NoPlaceLeft."""
        if self._taken[environment] >= self._per_environment or self._taken.total() >= self._in_all:
            raise NoPlaceLeft
        self._taken[environment] += 1
        try:
            yield
        finally:
            self._taken[environment] -= 1
            if not self._taken[environment]:
                del self._taken[environment]
