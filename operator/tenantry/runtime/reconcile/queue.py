"""The work queue: a lane per tenant namespace, served in turn; a key is never in two passes at once.

What a start or a resync looks at waits behind what somebody waits for: with 10,000 Environments a resync is a minute of passes.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable

from tenantry.model.measures import LoopMeasures
from tenantry.model.resource import Ref

SHARE = 8
"""One of so many turns is for what waits behind, however much is wanted now."""


class Lanes:
    """Keys in a lane for each namespace. The lanes are served in turn."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Ref]] = {}
        self._turn: deque[str] = deque()

    def add(self, key: Ref) -> None:
        lane = self._lanes.get(key.namespace)
        if lane is None:
            lane = self._lanes[key.namespace] = deque()
            self._turn.append(key.namespace)
        lane.append(key)

    def pop(self) -> Ref:
        """The next key, of the lane whose turn it is. Raises IndexError when there is none."""
        namespace = self._turn.popleft()
        lane = self._lanes[namespace]
        key = lane.popleft()
        if lane:
            self._turn.append(namespace)
        else:
            del self._lanes[namespace]
        return key


class Queue:
    """Keys that want a pass: now, behind those, or later. One that waits waits once, and may come sooner."""

    def __init__(self, time: Callable[[], float], measures: LoopMeasures | None = None) -> None:
        self._time = time
        self._measures = measures or LoopMeasures(time)
        self._lanes, self._lanes_behind = Lanes(), Lanes()
        self._now: set[Ref] = set()
        self._behind: set[Ref] = set()
        """The keys that wait in the lanes behind, which also hold those that are wanted now since."""
        self._running: set[Ref] = set()
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
            return
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
        while not self._now and not self._behind:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._call_one()  # it was called for a key that another must take now
                raise
        return self._pop()

    def done(self, key: Ref) -> None:
        """The pass of a taken key has ended."""
        self._running.discard(key)
        self._measures.done(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

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

    def _pop(self) -> Ref:
        turn_of_those_behind = next(self._turns) % SHARE == 0
        if self._behind and (turn_of_those_behind or not self._now):
            key = self._lanes_behind.pop()
            while key not in self._behind:  # it came sooner
                key = self._lanes_behind.pop()
            self._behind.discard(key)
            self._due.pop(key, None)
        else:
            key = self._lanes.pop()
            self._now.discard(key)
        self._running.add(key)
        self._measures.taken(key)
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
