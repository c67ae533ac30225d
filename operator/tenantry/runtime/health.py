"""The figures that the alerts watch and the times of each kind, of this process, without Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tenantry.kinds.source.spec import Source
from tenantry.kinds.states import NEEDS_YOU, WAITING
from tenantry.model.measures import LoopMeasures, Times
from tenantry.runtime.fleet import Fleet

LONG_S = 300.0
"""Seconds within which a declaration should be Ready."""


class PlatformMeasures(NamedTuple):
    """The numbers that a process has of the platform. loop: None where the passes are another process's."""

    fleet: Fleet
    loop: LoopMeasures | None = None


class Figure(NamedTuple):
    """A figure of the platform. alert: the one that watches it; bound: the alert fires above it, after some time.

    unit: `s`, `share` or `""`.
    """

    alert: str
    value: float
    bound: float = 0.0
    unit: str = ""

    @property
    def good(self) -> bool:
        """Return True if the figure is within its bound."""
        return self.value <= self.bound


class KindTimes(NamedTuple):
    """The times of one kind since the start, in seconds; None where nothing was measured. ready: how many became Ready.

    depth, active, failed, waited, worked: of the passes, where this process has the loop.
    """

    kind: str
    ready: int
    p50: float | None
    p99: float | None
    depth: int = 0
    active: int = 0
    failed: int = 0
    waited: float | None = None
    worked: float | None = None


def figures(measures: PlatformMeasures) -> Iterator[Figure]:
    """Yield each figure."""
    fleet, engines = measures.fleet, measures.fleet.engines()
    states, broken = list(fleet.states()), (NEEDS_YOU, WAITING)
    yield Figure("ObjectsStalledPlatform", sum(count for _, state, by, count in states if (state, by) == (NEEDS_YOU, "Operator")))
    yield Figure("EngineDown", engines["FAILED"] + engines["PENDING"])
    yield Figure("SourceBroken", sum(count for kind, state, _, count in states if kind == Source.KIND and state in broken))
    yield Figure("PruneHeldBack", fleet.held_back)
    yield Figure("OperationOverdue", max((age for _, age in fleet.open_operations().values()), default=0.0), 1800, "s")
    yield Figure("DeletionStuck", fleet.longest_deletion(), 3600, "s")
    yield Figure("ObjectsHot", sum(count for _, count in fleet.hot_objects()))
    yield Figure("DeclaredToReadySlow", _slow_share(fleet), 0.06, "share")
    if measures.loop is not None:
        waits = (each.waited.quantile(0.9) for each in measures.loop.kinds.values())
        yield Figure("QueueBehind", max((each for each in waits if each is not None), default=0.0), 30, "s")


def slowest_first(measures: PlatformMeasures) -> list[KindTimes]:
    """Return the times of each kind."""
    times = [_times(kind, settled, measures.loop) for kind, settled in measures.fleet.settled.items()]
    return sorted(times, key=lambda each: (-(each.p99 or 0.0), -(each.worked or 0.0), each.kind))


def _slow_share(fleet: Fleet) -> float:
    """Return the share of declarations since the start that took longer than LONG_S."""
    total = sum(times.count for times in fleet.settled.values())
    within = sum(dict(times.buckets())[repr(LONG_S)] for times in fleet.settled.values())
    return 1 - within / total if total else 0.0


def _times(kind: str, settled: Times, loop: LoopMeasures | None) -> KindTimes:
    found = KindTimes(kind, settled.count, settled.quantile(0.5), settled.quantile(0.99))
    if loop is None or kind not in loop.kinds:
        return found
    own = loop.kinds[kind]
    waited, worked = own.waited.quantile(0.9), own.worked.quantile(0.99)
    return found._replace(depth=own.depth, active=own.active, failed=own.results["error"], waited=waited, worked=worked)
