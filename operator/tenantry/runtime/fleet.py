"""Numbers of the whole fleet, kept with each change of the cache: states, drift, open Operations, Sources, durations.

Only objects that are not at rest are held by name, so 10,000 environments at rest take no memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, get_args

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Action, Operation
from tenantry.kinds.region.spec import Region
from tenantry.kinds.source.spec import Source
from tenantry.kinds.states import DELETING, NEEDS_YOU, READY, SUSPEND, WORKING, standing_of
from tenantry.model.measures import LONG_BOUNDS_S, Times
from tenantry.model.resource import DRIFTED, HOT, Document, Ref, parse_time
from tenantry.runtime.cache import Cache, Seen

ENDS = ("SUCCESS", "FAILURE", "CANCELLED")
RUNNING = "RUNNING"


class _Restless(NamedTuple):
    """An object that is not at rest. by: who must act, `User` or `Operator`, `""` for nobody.

    synced: when a Source was last read. held_back: its deletions that wait for an approval. hot: reconciled too often.
    pools: of a Region, the state of each pool that does not run, and the number of its engines.
    """

    state: str
    by: str
    deleted: datetime | None = None
    drifted: bool = False
    engine: str = RUNNING
    synced: datetime | None = None
    held_back: int = 0
    hot: bool = False
    pools: tuple[tuple[str, int], ...] = ()


class Fleet:
    """Follows a cache from now on.

    kinds: those that have passes. time: monotonic, in seconds. now: UTC.
    """

    def __init__(self, cache: Cache, kinds: Iterable[str], *, time: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._kinds = tuple(kinds)
        self._time = time
        self._now = now
        self._started = now()
        self._restless: dict[Ref, _Restless] = {}
        self._declared: dict[Ref, tuple[int, float]] = {}
        """The generation of each object that is on its way to Ready, and when it was seen first."""
        self._open: dict[Ref, tuple[str, datetime]] = {}
        self.operations = {(action, result): Times(LONG_BOUNDS_S) for action in get_args(Action) for result in ENDS}
        """Durations of the Operations that ended since the start, by action and result."""
        self.settled = {kind: Times(LONG_BOUNDS_S) for kind in self._kinds}
        """Times from a declaration to Ready, by kind, of what this process has seen from its beginning.

        What only a person can mend, or has suspended, is not counted.
        """
        for kind in (*self._kinds, Operation.KIND):
            for ref, entry in cache.entries(kind):
                self._look(ref, entry.document(), False)
        cache.listen(self._seen)

    def states(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield kind, state, who must act and the number of objects; a kind's Ready ones always."""
        unready = [(ref.kind, each.state, each.by) for ref, each in self._restless.items() if each.state != READY]
        others = Counter(kind for kind, _, _ in unready)
        for kind in self._kinds:
            yield kind, READY, "", self._cache.count(kind) - others[kind]
        for (kind, state, by), count in sorted(Counter(unready).items()):
            yield kind, state, by, count

    def open_operations(self) -> dict[str, tuple[int, float]]:
        """Return by action how many Operations have not ended, and the age of the oldest in seconds."""
        ages: defaultdict[str, list[float]] = defaultdict(list)
        for action, since in self._open.values():
            ages[action].append(self._age(since))
        return {action: (len(each), max(each)) for action, each in sorted(ages.items())}

    def longest_deletion(self) -> float:
        """Return the seconds since the oldest deletion that has not ended was asked for, 0 without one."""
        return max((self._age(each.deleted) for each in self._restless.values() if each.deleted), default=0.0)

    def oldest_sync(self) -> float:
        """Return the seconds since the Source that was read longest ago was read, 0 without one."""
        return max((self._age(each.synced) for each in self._restless.values() if each.synced), default=0.0)

    @property
    def held_back(self) -> int:
        """The objects whose deletion by a Source waits for an approval."""
        return sum(each.held_back for each in self._restless.values())

    @property
    def drifted(self) -> int:
        """The objects whose engine differs from the declaration and is left alone."""
        return sum(each.drifted for each in self._restless.values())

    def hot_objects(self) -> Iterator[tuple[str, int]]:
        """Yield each kind, and how many of its objects are reconciled too often."""
        hot = Counter(ref.kind for ref, each in self._restless.items() if each.hot)
        for kind in self._kinds:
            yield kind, hot[kind]

    def engines(self) -> Counter[str]:
        """Return how many engines are not running, by their status, or by that of their pool."""
        found = Counter(each.engine for each in self._restless.values() if each.engine != RUNNING)
        for each in self._restless.values():
            for status, engines in each.pools:
                found[status] += engines
        return found

    def _age(self, since: datetime) -> float:
        return max(0.0, (self._now() - since).total_seconds())

    def _seen(self, seen: Seen) -> None:
        if seen.ref.kind not in self._kinds and seen.ref.kind != Operation.KIND:
            return
        if seen.document is None:
            for held in (self._restless, self._declared, self._open):
                held.pop(seen.ref, None)
        else:
            self._look(seen.ref, seen.document, seen.before is not None)

    def _look(self, ref: Ref, document: Document, changed: bool) -> None:
        """changed: it has been seen before."""
        if ref.kind == Operation.KIND:
            self._operation(ref, document, changed)
        elif not _at_rest(document):
            restless = self._restless[ref] = _observed(document)
            self._measure(ref, document, restless.state)
        elif self._restless.pop(ref, None) is not None:
            self._measure(ref, document, READY)

    def _measure(self, ref: Ref, document: Document, state: str) -> None:
        """Note when a generation is seen first, and count the time until it is Ready."""
        generation, known = document["metadata"].get("generation", 0), self._declared.get(ref)
        if state == READY:
            if known is not None:
                del self._declared[ref]
                self.settled[ref.kind].add(self._time() - known[1])
        elif state in (NEEDS_YOU, SUSPEND, DELETING):
            self._declared.pop(ref, None)
        elif known is None or known[0] != generation:
            self._declared[ref] = generation, self._time()

    def _operation(self, ref: Ref, document: Document, changed: bool) -> None:
        spec, status = document["spec"], document.get("status", {})
        begun = status.get("startedOn") or document["metadata"].get("creationTimestamp")
        if status.get("status", "QUEUED") != "COMPLETED":
            self._open[ref] = spec["action"], parse_time(begun) if begun else self._now()
            return
        known, ended = self._open.pop(ref, None) is not None, status.get("endsOn")
        # One without a long step is recorded when it has ended: it is new then.
        if begun and ended and (known or (not changed and parse_time(ended) >= self._started)):
            seconds = (parse_time(ended) - parse_time(begun)).total_seconds()
            # Another release may know other actions.
            if times := self.operations.get((spec["action"], status.get("result", ""))):
                times.add(max(0.0, seconds))


def _at_rest(document: Document) -> bool:
    """Return True for nearly all objects, by a look that takes less than a microsecond."""
    metadata, status = document["metadata"], document.get("status", {})
    conditions = status.get("conditions", ())
    return (
        len(conditions) == 1
        and conditions[0]["type"] == "Ready"
        and conditions[0]["status"] == "True"
        and status.get("observedGeneration") == metadata.get("generation")
        and "deletionTimestamp" not in metadata
        and document["kind"] != Source.KIND
        and (status.get("engine") or {}).get("status", RUNNING) == RUNNING
        and not _pools_down(status)
    )


def _pools_down(status: Document) -> tuple[tuple[str, int], ...]:
    found = [(each.get("status", "PENDING"), each.get("engines", 0)) for each in status.get("pools") or ()]
    return tuple(each for each in found if each[0] != RUNNING and each[1])


_NEW = _Restless(WORKING, "")


def _observed(document: Document) -> _Restless:
    status = document.get("status", {})
    if not status and "deletionTimestamp" not in document["metadata"]:
        return _NEW  # by one look: each object is new once
    state, *_, by = standing_of(document)
    true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
    seen = _Restless(state, by, _moment(document["metadata"].get("deletionTimestamp")), DRIFTED in true, hot=HOT in true)
    if document["kind"] == Environment.KIND:
        return seen._replace(engine=(status.get("engine") or {}).get("status", RUNNING))
    if document["kind"] == Region.KIND:
        return seen._replace(pools=_pools_down(status))
    if document["kind"] == Source.KIND:
        synced = None if state == SUSPEND else _moment(status.get("lastSync"))
        return seen._replace(synced=synced, held_back=len(status.get("kept", ())))
    return seen


def _moment(text: str | None) -> datetime | None:
    return parse_time(text) if text else None
