"""The loop around passes: changes of the cache wake keys, workers take them, verdicts set the time of the next pass."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import structlog

from tenantry.kinds.operation.spec import Operation
from tenantry.model.measures import LoopMeasures
from tenantry.model.resource import Ref
from tenantry.model.sharding.shards import Owns, owns_all
from tenantry.model.verdicts import Ready, Stalled, Transient, Verdict, Waiting, unforeseen
from tenantry.ports import Kind
from tenantry.runtime.cache import Cache, Entry, Seen
from tenantry.runtime.pace import Pace
from tenantry.runtime.reconcile.claiming import Claiming
from tenantry.runtime.reconcile.cycle import Cycle, Ended
from tenantry.runtime.reconcile.following import Followed, Following, TrackedView
from tenantry.runtime.reconcile.queue import PassLimits, Queue

FIRST_RETRY = 0.25
LAST_RETRY = 60.0
# One or two conflicts are normal. A failure that goes on must be logged: on a full disk it is not even in the status.
TOLD_AFTER = 4
# A list changes in bursts: those who read it look once, shortly after.
LIST_SETTLES = 0.02

log = structlog.get_logger(__name__)


class Runtime:
    """Keeps every object converging. One per event loop.

    `time` is monotonic, in seconds; `now` is UTC; `told` hears how every pass ended.
    """

    def __init__(
        self,
        kinds: Mapping[str, Kind[Any, Any]],
        cache: Cache,
        cycle: Cycle,
        *,
        time: Callable[[], float],
        now: Callable[[], datetime],
        workers: int = 32,
        told: Callable[[Ref, Ended], None] = lambda key, ended: None,
        timers: bool = True,
        owns: Owns = owns_all,
        others_looked: Callable[[], bool] = lambda: True,
    ) -> None:
        """timers: do passes come again by themselves, after a failure or at a time? Else only changes wake them.
        owns: is an object this process's now? others_looked: did every object of other processes have a pass?"""
        self._kinds = kinds
        self._cache = cache
        self._cycle = cycle
        self._now = now
        self.measures = LoopMeasures(time, workers)
        self._queue = Queue(time, self.measures, limits=PassLimits(max(2, workers // 8), max(1, workers // 4)))
        self._following = Following()
        self._claiming = Claiming()
        self._failures: dict[Ref, int] = {}
        self._asked: set[Ref] = set()
        """The objects whose next pass was asked for by a change of their own, an engine, a person or the resync."""
        self._workers = workers
        self._told = told
        self._timers = timers
        self._owns, self._others_looked = owns, others_looked
        self._running: dict[Ref, asyncio.Task[None] | None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        """The workers, from the start to the end."""
        self._unlisten: Callable[[], None] = _nothing
        self._unseen: set[Ref] = set()
        """The objects from the start that have had no pass yet."""
        self._idle = asyncio.Event()
        self._pace = Pace()

    def start(self, covers: Callable[[Ref], bool] = lambda key: True) -> None:
        """Starts the workers, and a pass over every object that is there. covers: only over those."""
        self._unlisten = self._cache.listen(self._seen)
        self._begin(covers)
        self._tasks = [asyncio.create_task(self._work(), name=f"pass-{n}") for n in range(self._workers)]

    def take_over(self, covers: Callable[[Ref], bool]) -> None:
        """Begin with objects that are this process's from now on: a pass over each."""
        # Others may have let go since what they had shown to this process.
        self._cache.confirmed.clear()
        self._begin(covers)

    def _begin(self, covers: Callable[[Ref], bool]) -> None:
        """Begin with objects. Those that are not Ready come first: somebody may wait for them."""
        for key in self._owned(covers):
            self._unseen.add(key)
            self._asked.add(key)
            entry = self._cache.entry(key)
            if entry is None or not entry.ready:
                self._queue.add(key)
            else:
                self._queue.add_behind(key)

    async def hand_over(self, covers: Callable[[Ref], bool]) -> None:
        """End the passes over objects that are no longer this process's; `owns` knows that already.

        A pass that is cut off is a crash that the next pass mends, in whichever process.
        """
        cut_off = [task for key, task in self._running.items() if task is not None and covers(key)]
        for task in cut_off:
            task.cancel()
        await asyncio.gather(*cut_off, return_exceptions=True)
        self._tasks = [task for task in self._tasks if task not in cut_off]
        self._tasks += [asyncio.create_task(self._work(), name="pass") for _ in cut_off]
        for kind in self._kinds:
            for name in tuple(self._cache.names(kind)):
                if covers(key := Ref(kind, *name)):
                    self._forget(key)

    @property
    def looked(self) -> bool:
        """Return True if each object of this process had a pass since it began with it."""
        return not self._unseen

    async def stop(self) -> None:
        """Ends the workers where they are: a pass that is cut off is a crash that the next start mends.

        It holds neither its workers nor its cache's attention then: all that belongs to a plan is freed with it.
        """
        self._unlisten()
        self._unlisten = _nothing
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def resync(self, covers: Callable[[Ref], bool] = lambda key: True) -> None:
        """A pass over every object that is covered, behind those that somebody waits for."""
        for key in self._owned(covers):
            self._asked.add(key)
            self._queue.add_behind(key)

    def _owned(self, covers: Callable[[Ref], bool]) -> Iterator[Ref]:
        for kind in self._kinds:
            for name in tuple(self._cache.names(kind)):
                if covers(key := Ref(kind, *name)) and self._owns(key):
                    yield key

    def wake(self, key: Ref) -> None:
        """A pass over one object, now. Before the start nothing is noted: it begins with a pass over each."""
        if not self._tasks or not self._owns(key):
            return
        self._failures.pop(key, None)
        self._asked.add(key)
        self._queue.add(key)

    def look(self, key: Ref) -> None:
        """The same for one whose outside has moved: how often it failed so far still counts."""
        if self._tasks and self._owns(key) and self._cache.entry(key) is not None:
            self._queue.add(key)

    @property
    def busy(self) -> bool:
        """Return True if a pass runs, waits, or comes within the longest pause between retries."""
        return self._queue.busy(LAST_RETRY)

    async def idle(self, within: float = LAST_RETRY, *, hurry: bool = False) -> None:
        """Returns when no pass runs, waits, or is due within so many seconds. hurry: what is only due comes at once."""
        while self._queue.busy(within):
            if hurry:
                self._queue.hurry(within)
            self._idle.clear()
            await self._idle.wait()

    def _seen(self, seen: Seen) -> None:
        if seen.ref.kind in self._kinds and seen.origin != seen.ref:
            if seen.after is None:
                self._forget(seen.ref)
            else:
                self.wake(seen.ref)
        if seen.ref.kind == Operation.KIND and seen.before is None and seen.after is not None and seen.origin is None:
            # Opened by somebody else, perhaps after the pass that it is about: that object's next pass settles it.
            self._wake_target(seen.after)
        if not seen.matters:
            return
        for follower, by_list in self._following.woken_by(seen):
            if by_list:
                self._queue.add_after(follower, LIST_SETTLES)
            else:
                self._queue.add(follower)

    def _wake_target(self, operation: Entry) -> None:
        target = operation.document()["spec"]["target"]
        key = Ref(target["kind"], target.get("namespace", ""), target["name"])
        self.look(key)

    def _forget(self, key: Ref) -> None:
        self._following.follow(key, set())
        self._unseen.discard(key)
        self._asked.discard(key)
        self._failures.pop(key, None)
        self._queue.forget(key)
        self._idle.set()

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            await self._pace.breathe()
            if not self._owns(key):  # it was handed over since
                self._queue.done(key)
                self._idle.set()
                continue
            self._running[key] = asyncio.current_task()  # in no variable: the frame of a worker that is cancelled would hold it
            try:
                await self._in_turn(key)
            except Exception as bug:
                log.exception("a pass could not be ended", object=str(key))
                self._again(key, Ended(unforeseen(bug)))
            finally:
                del self._running[key]
                self._queue.done(key)
                self._idle.set()

    async def _in_turn(self, key: Ref) -> None:
        """A pass, unless one over a rival runs: then it comes when that has ended, and no worker waits for it."""
        resource = self._cache.resource(key)
        claims = resource.claims if resource is not None else frozenset[str]()
        if not self._claiming.begin(key, claims):
            return
        try:
            await self._pass(key)
        finally:
            for rival in self._claiming.end(key, claims):
                self._queue.add(rival)

    async def _pass(self, key: Ref) -> None:
        def reads(what: Followed) -> None:
            self._following.also(key, what)

        view = TrackedView(self._cache, reads, self._complete)
        asked = key in self._asked
        self._asked.discard(key)
        try:
            ended = await self._cycle.run(key, view, asked=asked)
        except Exception as bug:
            log.exception("pass failed", object=str(key))
            ended = Ended(unforeseen(bug))
        self._told(key, ended)
        self._measure(key, ended.verdict)
        if not isinstance(ended.verdict, Transient):
            self._unseen.discard(key)
        if self._cache.entry(key) is None:
            self._forget(key)
            return
        self._following.follow(key, view.followed)
        for due in ended.due:
            self.look(due)
        if self._timers:
            self._again(key, ended)

    def _complete(self) -> bool:
        return not self._unseen and self._others_looked()

    def _measure(self, key: Ref, verdict: Verdict | None) -> None:
        match verdict:
            case Transient():
                self.measures.ended(key, "error")
            case Stalled():
                self.measures.ended(key, "error", terminal=True)
            case Waiting(_, _, until) | Ready(_, _, until) if until is not None:
                self.measures.ended(key, "requeue_after")
            case _:
                self.measures.ended(key, "success")

    def _again(self, key: Ref, ended: Ended) -> None:
        match ended.verdict:
            case Transient(reason, message):
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                if failures == TOLD_AFTER:
                    log.warning("goes on failing", object=str(key), reason=reason, message=message)
                self.measures.retried(key)
                pause = min(LAST_RETRY, FIRST_RETRY * 2 ** min(failures - 1, 20))
                self._queue.add_after(key, pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
            case Waiting(_, _, until) | Ready(_, _, until) if until is not None:
                self._queue.add_after(key, max(0.0, (until - self._now()).total_seconds()))
            case _:
                self._failures.pop(key, None)


def _nothing() -> None:
    """Of a runtime that was not started."""
