"""The work queue: a lane per tenant namespace, served in turn and up to a limit; a key is never in two passes at once.

Objects at rest, at which a start or a resync looks again, wait behind those that somebody waits for: with 10,000 Environments
a resync is a minute of passes.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import sys
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from tenantry.model.measures import LoopMeasures
from tenantry.model.resource import Ref

SHARE = 8
"""One of so many turns is for what waits behind, however much is wanted now."""
BEHIND = 64
"""Lanes that are served at the same time behind. Objects of one namespace have their passes close to each other, and share
the connections to their engines."""


class NamespaceLanes:
    """Keys in a lane for each namespace. The lanes are served in turn, at most so many of them at the same time."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lanes: dict[str, deque[Ref]] = {}
        self._turn: deque[str] = deque()
        self._line: deque[str] = deque()
        """The lanes of which each comes when one of those is empty."""

    def add(self, key: Ref) -> None:
        lane = self._lanes.get(key.namespace)
        if lane is None:
            lane = self._lanes[key.namespace] = deque()
            (self._turn if len(self._turn) < self._at_once else self._line).append(key.namespace)
        lane.append(key)

    def pop(self, full: Callable[[str], bool]) -> Ref | None:
        """The next key, of the lane whose turn it is; None if all keys are of lanes that are full."""
        for _ in range(len(self._turn)):
            namespace = self._turn.popleft()
            if not full(namespace):
                return self._pop(namespace)
            self._turn.append(namespace)
        return None

    def _pop(self, namespace: str) -> Ref:
        lane = self._lanes[namespace]
        key = lane.popleft()
        if lane:
            self._turn.append(namespace)
            return key
        del self._lanes[namespace]
        if self._line:
            self._turn.append(self._line.popleft())
        return key


class PassLimits(NamedTuple):
    """The passes at the same time: of one namespace, and of those that wait behind."""

    of_namespace: int
    behind: int


NO_LIMITS = PassLimits(sys.maxsize, sys.maxsize)


class Queue:
    """Keys that want a pass: now, behind those, or later. One that waits waits once, and may come sooner."""

    def __init__(self, time: Callable[[], float], measures: LoopMeasures | None = None, limits: PassLimits = NO_LIMITS) -> None:
        self._time = time
        self._measures = measures or LoopMeasures(time)
        self._limits = limits
        self._passes: Counter[str] = Counter()
        """The number that each namespace has at the moment."""
        self._lanes, self._lanes_behind = NamespaceLanes(sys.maxsize), NamespaceLanes(BEHIND)
        self._now: set[Ref] = set()
        self._behind: set[Ref] = set()
        """The keys that wait in the lanes behind, which also hold those that are wanted now since."""
        self._running: set[Ref] = set()
        self._running_behind: set[Ref] = set()
        self._again: set[Ref] = set()
        self._later: list[tuple[float, int, Ref]] = []
        self._due: dict[Ref, float] = {}
        self._order = itertools.count()
        self._turns = itertools.count(1)
        self._takers: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, key: Ref) -> None:
        """Wants a pass now; after the present one, when there is one."""
        if key in self._running:
            self._again.add(key)
            return
        if key in self._now:
            return
        self._due.pop(key, None)
        self._now.add(key)
        self._lanes.add(key)
        if key in self._behind:
            self._behind.discard(key)
            self._measures.hurried(key)
        else:
            self._measures.added(key)
        self._call_one()

    def add_behind(self, key: Ref) -> None:
        """Wants a pass when nobody waits for another; after the present one, when there is one."""
        if key in self._running:
            self._again.add(key)
            return
        if key in self._now or key in self._behind:
            return
        self._behind.add(key)
        self._lanes_behind.add(key)
        self._measures.added(key, behind=True)
        self._call_one()

    def add_after(self, key: Ref, seconds: float) -> None:
        """Wants a pass in so many seconds, or sooner when it is due sooner already."""
        if key in self._now:
            return
        due = self._time() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        heapq.heappush(self._later, (due, next(self._order), key))
        if self._later[0][2] == key:
            self._set_alarm()

    async def take(self) -> Ref:
        """The next key, of the lane whose turn it is. `done` must follow."""
        while (key := self._pop()) is None:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._call_one()  # it was called for a key that another must take now
                raise
        return key

    def done(self, key: Ref) -> None:
        """The pass of a taken key has ended."""
        self._running.discard(key)
        self._running_behind.discard(key)
        self._passes[key.namespace] -= 1
        if not self._passes[key.namespace]:
            del self._passes[key.namespace]
        self._measures.done(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        if self._now or self._behind:
            self._call_one()  # what waits may have waited for this place

    def forget(self, key: Ref) -> None:
        """No later pass is wanted."""
        self._due.pop(key, None)

    def busy(self, within: float = 0.0) -> bool:
        """Return True if a key is running, waiting, or due within so many seconds."""
        if self._running or self._now or self._behind:
            return True
        horizon = self._time() + within
        return any(due <= horizon for due in self._due.values())

    def hurry(self, within: float) -> None:
        """Want a pass now over what is due within so many seconds, if nothing runs or waits."""
        if not self.busy():
            self._promote(within)

    def _pop(self) -> Ref | None:
        first, then = self._pop_now, self._pop_behind
        if self._now and self._behind and next(self._turns) % SHARE == 0:
            first, then = then, first
        key = first() or then()
        if key is None:
            return None
        self._running.add(key)
        self._passes[key.namespace] += 1
        self._measures.taken(key)
        return key

    def _is_full(self, namespace: str) -> bool:
        return self._passes[namespace] >= self._limits.of_namespace

    def _pop_now(self) -> Ref | None:
        key = self._lanes.pop(self._is_full) if self._now else None
        if key is not None:
            self._now.discard(key)
        return key

    def _pop_behind(self) -> Ref | None:
        if not self._behind or len(self._running_behind) >= self._limits.behind:
            return None
        key = self._lanes_behind.pop(self._is_full)
        while key is not None and key not in self._behind:  # it came sooner
            key = self._lanes_behind.pop(self._is_full)
        if key is not None:
            self._behind.discard(key)
            self._running_behind.add(key)
            self._due.pop(key, None)
        return key

    def _call_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        pause = max(0.0, self._later[0][0] - self._time())
        self._alarm = asyncio.get_running_loop().call_later(pause, self._promote)

    def _promote(self, within: float = 0.0) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        horizon = self._time() + within
        while self._later and self._later[0][0] <= horizon:
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        if self._later:
            self._set_alarm()
