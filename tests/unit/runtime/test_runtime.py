"""When passes come, and what they may know of the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

from tenantry.kinds.registry import KINDS, TYPES
from tenantry.model.resource import API_VERSION, Ref
from tenantry.model.verdicts import Ready, Transient, Verdict
from tenantry.runtime.cache import Cache
from tenantry.runtime.cycle import Cycle, Ended
from tenantry.runtime.following import TrackedView
from tenantry.runtime.runtime import Runtime

EU, US = (Ref("Region", "", name) for name in ("eu", "us"))


class Passes:
    """A Cycle that only notes its passes. ends: by what the nth pass of an object ends."""

    def __init__(self, ends: Callable[[Ref, int], Verdict]) -> None:
        self._ends = ends
        self.seen: list[tuple[Ref, bool]] = []
        """Each pass, and whether every object had had one before."""
        self.more = asyncio.Event()

    async def run(self, key: Ref, view: TrackedView) -> Ended:
        self.seen.append((key, view.complete()))
        self.more.set()
        return Ended(self._ends(key, sum(1 for each, _ in self.seen if each == key)))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                self.more.clear()
                await self.more.wait()


@asynccontextmanager
async def running(ends: Callable[[Ref, int], Verdict]) -> AsyncIterator[Passes]:
    """A runtime with one worker over two regions."""
    cache = Cache(TYPES)
    for name in ("eu", "us"):
        metadata = {"name": name, "uid": name, "resourceVersion": "1", "generation": 1}
        cache.absorb({"apiVersion": API_VERSION, "kind": "Region", "metadata": metadata, "spec": {}, "status": {}})
    passes = Passes(ends)
    runtime = Runtime(KINDS, cache, cast(Cycle, passes), time=time.monotonic, now=lambda: datetime.now(UTC), workers=1)
    runtime.start()
    try:
        yield passes
    finally:
        await runtime.stop()


async def test_what_is_ready_until_a_time_is_looked_at_again_then() -> None:
    def ends(key: Ref, nth: int) -> Verdict:
        return Ready(until=datetime.now(UTC) + timedelta(milliseconds=20)) if key == EU and nth < 3 else Ready()

    async with running(ends) as passes:
        await passes.until(lambda: [key for key, _ in passes.seen].count(EU) == 3)
        assert [key for key, _ in passes.seen].count(US) == 1


async def test_a_pass_knows_whether_every_object_had_one() -> None:
    """One that failed in passing has not been looked at."""

    def ends(key: Ref, nth: int) -> Verdict:
        if key == US:
            return Transient("Away", "not now") if nth == 1 else Ready()
        return Ready(until=datetime.now(UTC) + timedelta(milliseconds=20))

    async with running(ends) as passes:
        await passes.until(lambda: (EU, True) in passes.seen)
        told = [complete for key, complete in passes.seen if key == EU]
        assert told == sorted(told)
        assert [key for key, complete in passes.seen if not complete].count(US) == 2
