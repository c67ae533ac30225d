"""Counts and times of the reconcile loop and of engines: plain numbers, because each pass and request adds to several."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, zip_longest
from time import monotonic
from types import MappingProxyType
from typing import Literal, NamedTuple

from tenantry.model.resource import Ref

BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
Result = Literal["success", "requeue_after", "error"]
"""The end of a pass, in controller-runtime's words: settled, to come again at a time, or failed."""
RESULTS: tuple[Result, ...] = ("success", "requeue_after", "error")


LONG_BOUNDS_S = (0.1, 0.5, 2.5, 10.0, 60.0, 300.0, 900.0, 3600.0)
"""Of what takes engines and people: Operations, and the way from a declaration to Ready."""


REQUEST_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0)
"""Of what an engine answers."""
EngineOperation = Literal["read", "write", "listen", "sign-in", "admin", "content", "other"]
"""A request's work: rows that are read, written or listened to, a sign-in, an administration call, an app's file."""
ENGINE_OPERATIONS: tuple[EngineOperation, ...] = ("read", "write", "listen", "sign-in", "admin", "content", "other")


FACADE_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Of what the facade answers."""
METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})
"""The methods that are counted by their name."""


class Times:
    """A histogram of seconds."""

    def __init__(self, bounds: tuple[float, ...] = BOUNDS_S) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    @classmethod
    def of(cls, buckets: Sequence[tuple[str, float]], summed: float) -> Times:
        """Return the histogram that `buckets` and `sum` describe. Raises ValueError for bounds that are no numbers."""
        found = cls(tuple(float(bound) for bound, _ in buckets[:-1]))
        counts = [int(count) for _, count in buckets]
        if counts:
            found._counts = [after - before for before, after in zip((0, *counts), counts, strict=False)]
        found.sum = summed
        return found

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def include(self, other: Times) -> None:
        """Add all times of another histogram. It has the same bounds."""
        if other.count:
            assert other._bounds == self._bounds or not self.count
            self._bounds = other._bounds
            self._counts = [mine + its for mine, its in zip_longest(self._counts, other._counts, fillvalue=0)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        """The number of times."""
        return sum(self._counts)

    def quantile(self, share: float) -> float | None:
        """Return the time that this share of all does not exceed, as Prometheus' histogram_quantile; None without any."""
        rank, below = share * self.count, 0
        if not self.count:
            return None
        for lower, upper, counted in zip((0.0, *self._bounds), self._bounds, self._counts, strict=False):
            if counted and below + counted >= rank:
                return lower + (upper - lower) * (rank - below) / counted
            below += counted
        return self._bounds[-1]

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound as Prometheus writes it, and how many times are at most as long."""
        bounds = (*map(repr, self._bounds), "+Inf")
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))


class KindMeasures:
    """The numbers of one kind. terminal: failures that only an edit ends."""

    def __init__(self) -> None:
        self.depth = self.adds = self.retries = self.active = self.terminal = 0
        self.results: Counter[Result] = Counter()
        self.waited = Times()
        self.worked = Times()

    def include(self, other: KindMeasures) -> None:
        """Add the numbers of the same kind in another process."""
        for name in ("depth", "adds", "retries", "active", "terminal"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.results.update(other.results)
        self.waited.include(other.waited)
        self.worked.include(other.worked)


class LoopMeasures:
    """The numbers of one reconcile loop. time: monotonic, in seconds."""

    def __init__(self, time: Callable[[], float], workers: int = 0) -> None:
        self._time = time
        self._added: dict[Ref, float] = {}
        self._begun: dict[Ref, float] = {}
        self.workers = workers
        self.kinds: defaultdict[str, KindMeasures] = defaultdict(KindMeasures)

    def added(self, key: Ref, *, behind: bool = False) -> None:
        """A key waits from now on. behind: nobody waits for it, and so its time is not counted."""
        if not behind:
            self._added[key] = self._time()
        kind = self.kinds[key.kind]
        kind.adds += 1
        kind.depth += 1

    def hurried(self, key: Ref) -> None:
        """Somebody waits for a key that waits already."""
        self._added[key] = self._time()

    def taken(self, key: Ref) -> None:
        """A worker has it."""
        now = self._begun[key] = self._time()
        kind = self.kinds[key.kind]
        if key in self._added:
            kind.waited.add(now - self._added.pop(key))
        kind.depth -= 1
        kind.active += 1

    def done(self, key: Ref) -> None:
        """The worker is free again."""
        now = self._time()
        kind = self.kinds[key.kind]
        kind.worked.add(now - self._begun.pop(key, now))
        kind.active -= 1

    def ended(self, key: Ref, result: Result, *, terminal: bool = False) -> None:
        """A pass has come to its end."""
        kind = self.kinds[key.kind]
        kind.results[result] += 1
        kind.terminal += terminal

    def retried(self, key: Ref) -> None:
        """It comes again because it failed."""
        self.kinds[key.kind].retries += 1

    def unfinished(self) -> dict[str, tuple[float, float]]:
        """Return the sum and the longest of the seconds that running passes have taken so far, by kind."""
        now = self._time()
        found: defaultdict[str, list[float]] = defaultdict(list)
        for key, begun in self._begun.items():
            found[key.kind].append(now - begun)
        return {kind: (sum(seconds), max(seconds)) for kind, seconds in found.items()}


class EngineHoldings(NamedTuple):
    """Bytes and backups of the engines of this process. sizes: bytes by what they hold, empty before they were counted first.

    backed_up: the POSIX time of the newest backup of the engine whose newest is the oldest; None where none was backed up.
    """

    sizes: Mapping[str, int] = MappingProxyType({})
    backed_up: float | None = None


NOT_USES = frozenset({401, 403, 404})
"""Statuses of requests that do not count as use: whoever scans a network gets them."""


class RequestMeasures:
    """The requests that the engines of this process have answered, of all of them together.

    time: monotonic, in seconds. open: requests for rows whose answers are being sent, such as those of listeners.
    """

    def __init__(self, time: Callable[[], float] = monotonic) -> None:
        self._time = time
        self._used = time()
        self.open = 0
        self.times = {operation: Times(REQUEST_BOUNDS_S) for operation in ENGINE_OPERATIONS}
        """Seconds until the answer began."""
        self.answers: Counter[tuple[EngineOperation, int]] = Counter()
        """Their number, by operation and HTTP status."""

    def answered(self, operation: EngineOperation, status: int, seconds: float, *, by_operator: bool = False) -> None:
        """Count one request. by_operator: it is one of the platform itself, and no use of the engine."""
        self.times[operation].add(seconds)
        self.answers[operation, status] += 1
        if operation != "other" and not by_operator and status not in NOT_USES:
            self._used = self._time()

    def sent(self) -> None:
        """Count the end of an answer of which `open` counted the beginning."""
        self.open -= 1
        self._used = self._time()

    @property
    def unused_s(self) -> float:
        """Return the seconds since the last use, or since the start; 0 while an answer is being sent."""
        return 0.0 if self.open else self._time() - self._used


class FacadeMeasures:
    """The requests that the facade of this process has answered."""

    def __init__(self) -> None:
        self.times: defaultdict[str, Times] = defaultdict(lambda: Times(FACADE_BOUNDS_S))
        """Seconds until the answer began, by method."""
        self.answers: Counter[tuple[str, str, int]] = Counter()
        """Their number, by method, route and HTTP status."""

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer. route: the path with its parameters' names; seconds: until the answer began."""
        # A method is the client's own text: any other than these would be a label of its own.
        known = method if method in METHODS else "other"
        self.times[known].add(seconds)
        self.answers[known, route, status] += 1
