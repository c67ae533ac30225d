"""Requests per second of many callers, each with a bucket of one second's worth."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class RequestRates(Protocol):
    """A limit for each key."""

    def take(self, key: str, per_second: int) -> float:
        """Count a request: 0.0, or the seconds until one may be made."""


class Rates:
    """RequestRates of one process, with a bucket for each key.

    The keys are tenants or engines: there are no more of them than are declared.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str, per_second: int) -> float:
        """Take a request out of the bucket: 0.0, or the seconds until there is one, and nothing is taken."""
        now, full = self._clock(), float(per_second)
        left, since = self._buckets.get(key, (full, now))
        left = min(full, left + (now - since) * per_second)
        if left < 1:
            return (1 - left) / per_second
        self._buckets[key] = left - 1, now
        return 0.0
