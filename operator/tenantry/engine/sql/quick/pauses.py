"""Statements that were slow: they go to threads for a time, which doubles while they are slow again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

FIRST_S, LONGEST_S = 0.25, 8.0
"""Seconds of the first pause, and of the longest."""
MOST = 256
"""Statements that are remembered."""


class Pauses:
    """Those of one engine, by the text of the statement. clock: monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def holds(self, statement: str) -> bool:
        """Return True while the statement goes to threads."""
        return bool(self._ends) and self._ends.get(statement, (0.0, 0.0))[0] > self._clock()

    def begin(self, statement: str) -> None:
        """It was slow."""
        _, last = self._ends.pop(statement, (0.0, FIRST_S / 2))
        pause = min(2 * last, LONGEST_S)
        self._ends[statement] = self._clock() + pause, pause
        if len(self._ends) > MOST:
            self._ends.popitem(last=False)

    def end(self, statement: str) -> None:
        """It was not slow."""
        if self._ends:
            self._ends.pop(statement, None)
