"""Pauses in work that never waits by itself: it would hold up its event loop for as long as it takes."""

from __future__ import annotations

import asyncio
from time import perf_counter

SLICE_S = 0.002
"""Seconds of work between two pauses, while nothing else wants the loop."""
MOST_S = 0.004
"""Seconds of work after a pause in which others took longer than a slice."""


class Pace:
    """The pauses of one piece of work, which may be many tasks: no more than one of them goes on after each pause.

    Work that pauses gets one turn in each round of the loop. Under load a round is long, and a short turn would make the
    work many times slower: a turn is as long as the others' part of the round was, within `most_s`.
    """

    def __init__(self, slice_s: float = SLICE_S, most_s: float = MOST_S) -> None:
        self._least_s = self._slice_s = slice_s
        self._most_s = max(slice_s, most_s)
        self._since = perf_counter()
        self._turn = asyncio.Lock()

    async def breathe(self) -> None:
        """Let everything else that is ready run, if the work has gone on for a slice."""
        async with self._turn:
            paused = perf_counter()
            if paused - self._since >= self._slice_s:
                await asyncio.sleep(0)
                self._since = perf_counter()
                self._slice_s = min(max(self._least_s, self._since - paused), self._most_s)
