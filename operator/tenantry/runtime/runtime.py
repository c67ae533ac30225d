"""The loop around passes: what the cache tells wakes keys, workers take them, verdicts say when they come again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog

from tenantry.kinds.operation.spec import Operation
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Ready, Transient, Waiting, unforeseen
from tenantry.ports import Kind
from tenantry.runtime.cache import Cache, Entry, Seen
from tenantry.runtime.cycle import Cycle, Ended
from tenantry.runtime.following import Followed, Following, TrackedView
from tenantry.runtime.queue import Queue

FIRST_RETRY = 0.25
LAST_RETRY = 60.0
# A conflict or two is nobody's business; what goes on failing, with a full disk not even in its status, must be told.
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
    ) -> None:
        """timers: do passes come again by themselves, after a failure or at a time? Else only changes wake them."""
        self._kinds = kinds
        self._cache = cache
        self._cycle = cycle
        self._now = now
        self._queue = Queue(time)
        self._following = Following()
        self._failures: dict[Ref, int] = {}
        self._workers = workers
        self._told = told
        self._timers = timers
        self._tasks: list[asyncio.Task[None]] = []
        self._unseen: set[Ref] = set()
        """What was there at the start and has had no pass yet."""
        self._idle = asyncio.Event()

    def start(self, covers: Callable[[Ref], bool] = lambda key: True) -> None:
        """Starts the workers, and a pass over every object that is there. covers: only over those."""
        self._cache.listen(self._seen)
        self._unseen = {key for kind in self._kinds for name in self._cache.names(kind) if covers(key := Ref(kind, *name))}
        self.resync(covers)
        self._tasks = [asyncio.create_task(self._work(), name=f"pass-{n}") for n in range(self._workers)]

    async def stop(self) -> None:
        """Ends the workers where they are: a pass that is cut off is a crash that the next start mends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def resync(self, covers: Callable[[Ref], bool] = lambda key: True) -> None:
        """A pass over every object that is covered."""
        for kind in self._kinds:
            for name in tuple(self._cache.names(kind)):
                if covers(key := Ref(kind, *name)):
                    self._queue.add(key)

    def wake(self, key: Ref) -> None:
        """A pass over one object, now."""
        self._failures.pop(key, None)
        self._queue.add(key)

    def look(self, key: Ref) -> None:
        """The same for one whose outside has moved: how often it failed so far still counts."""
        if self._cache.entry(key) is not None:
            self._queue.add(key)

    @property
    def busy(self) -> bool:
        """Does a pass run, wait, or come within the longest pause between retries?"""
        return self._queue.busy(LAST_RETRY)

    async def idle(self, within: float = LAST_RETRY) -> None:
        """Returns when no pass runs, waits, or is due within so many seconds."""
        while self._queue.busy(within):
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
        if self._cache.entry(key) is not None:
            self._queue.add(key)

    def _forget(self, key: Ref) -> None:
        self._following.follow(key, set())
        self._unseen.discard(key)
        self._failures.pop(key, None)
        self._queue.forget(key)
        self._idle.set()

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                await self._pass(key)
            except Exception as bug:
                log.exception("a pass could not be ended", object=str(key))
                self._again(key, Ended(unforeseen(bug)))
            finally:
                self._queue.done(key)
                self._idle.set()

    async def _pass(self, key: Ref) -> None:
        def reads(what: Followed) -> None:
            self._following.also(key, what)

        view = TrackedView(self._cache, reads, lambda: not self._unseen)
        try:
            ended = await self._cycle.run(key, view)
        except Exception as bug:
            log.exception("pass failed", object=str(key))
            ended = Ended(unforeseen(bug))
        self._told(key, ended)
        if not isinstance(ended.verdict, Transient):
            self._unseen.discard(key)
        if self._cache.entry(key) is None:
            self._forget(key)
            return
        self._following.follow(key, view.followed)
        if self._timers:
            self._again(key, ended)

    def _again(self, key: Ref, ended: Ended) -> None:
        match ended.verdict:
            case Transient(reason, message):
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                if failures == TOLD_AFTER:
                    log.warning("goes on failing", object=str(key), reason=reason, message=message)
                pause = min(LAST_RETRY, FIRST_RETRY * 2 ** min(failures - 1, 20))
                self._queue.add_after(key, pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
            case Waiting(_, _, until) | Ready(_, _, until) if until is not None:
                self._queue.add_after(key, max(0.0, (until - self._now()).total_seconds()))
            case _:
                self._failures.pop(key, None)
