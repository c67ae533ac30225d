"""The times of passes, and what they may know of the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tenantry.kinds.registry import KINDS, TYPES
from tenantry.model.resource import API_VERSION, Ref
from tenantry.model.verdicts import Ready, Transient, Verdict
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.cycle import Cycle, Ended
from tenantry.runtime.reconcile.following import TrackedView
from tenantry.runtime.reconcile.loop import Runtime
from tests.support.patience import DEADLINE_S

SINCE = "2026-01-01T00:00:00Z"
EU, US = (Ref("Region", "", name) for name in ("eu", "us"))


class Passes:
    """A Cycle that only notes its passes. ends: by what the nth pass of an object ends; long: others may begin meanwhile."""

    def __init__(self, ends: Callable[[Ref, int], Verdict], long: bool = False) -> None:
        self._ends = ends
        self._long = long
        self.running: list[Ref] = []
        self.together: list[set[Ref]] = []
        """The passes that were seen to run at the same time."""
        self.seen: list[tuple[Ref, bool]] = []
        """Each pass, and whether every object had had one before."""
        self.more = asyncio.Event()

    async def run(self, key: Ref, view: TrackedView, *, asked: bool = True) -> Ended:
        self.seen.append((key, view.complete()))
        self.more.set()
        self.running.append(key)
        for _ in range(5 if self._long else 0):
            await asyncio.sleep(0)
        self.together.append(set(self.running))
        self.running.remove(key)
        return Ended(self._ends(key, sum(1 for each, _ in self.seen if each == key)))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                self.more.clear()
                await self.more.wait()


def runtime_of(cache: Cache, passes: Passes, workers: int = 1) -> Runtime:
    return Runtime(KINDS, cache, cast(Cycle, passes), time=time.monotonic, now=lambda: datetime.now(UTC), workers=workers)


@asynccontextmanager
async def started(runtime: Runtime) -> AsyncIterator[Runtime]:
    runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop()


@asynccontextmanager
async def running(ends: Callable[[Ref, int], Verdict]) -> AsyncIterator[Passes]:
    """A runtime with one worker over two regions."""
    cache = Cache(TYPES)
    for name in ("eu", "us"):
        metadata = {"name": name, "uid": name, "resourceVersion": "1", "generation": 1}
        cache.absorb({"apiVersion": API_VERSION, "kind": "Region", "metadata": metadata, "spec": {}, "status": {}})
    passes = Passes(ends)
    async with started(runtime_of(cache, passes)):
        yield passes


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


def tenants(cache: Cache, *slugs: str) -> list[Ref]:
    """So many tenants in the cache, each wanting that slug."""
    refs = [Ref("Tenant", "", f"t{number}") for number in range(len(slugs))]
    for ref, slug in zip(refs, slugs, strict=True):
        metadata = {"name": ref.name, "uid": ref.name, "resourceVersion": "1", "generation": 1}
        cache.absorb({"apiVersion": API_VERSION, "kind": "Tenant", "metadata": metadata, "spec": {"slug": slug}, "status": {}})
    return refs


async def test_passes_of_rivals_for_a_name_come_after_each_other_and_hold_up_no_worker() -> None:
    cache = Cache(TYPES)
    *rivals, other = tenants(cache, *["prize"] * 5, "own")
    passes = Passes(lambda key, nth: Ready(), long=True)
    async with started(runtime_of(cache, passes, workers=2)) as runtime:
        await passes.until(lambda: {key for key, _ in passes.seen} == {*rivals, other})
        await runtime.idle()
    assert sorted(key for key, _ in passes.seen) == sorted([*rivals, other])
    assert max(len(each & set(rivals)) for each in passes.together) == 1
    assert any(other in each and len(each) == 2 for each in passes.together), "the worker was free for another"


async def test_a_pass_that_is_cut_off_keeps_no_claim() -> None:
    def ends(key: Ref, nth: int) -> Verdict:
        if nth == 1:
            raise OSError("a bug")
        return Ready()

    cache = Cache(TYPES)
    rivals = tenants(cache, "prize", "prize")
    passes = Passes(ends)
    async with started(runtime_of(cache, passes, workers=2)):
        await passes.until(lambda: all([key for key, _ in passes.seen].count(each) >= 2 for each in rivals))


def regions(cache: Cache, count: int, *unsettled: int) -> list[Ref]:
    """So many regions in the cache, all Ready at their generation but those."""
    refs = [Ref("Region", "", f"r{number}") for number in range(count)]
    for number, ref in enumerate(refs):
        metadata = {"name": ref.name, "uid": ref.name, "resourceVersion": "1", "generation": 2}
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": SINCE}
        status = {"observedGeneration": 1 if number in unsettled else 2, "conditions": [ready]}
        cache.absorb({"apiVersion": API_VERSION, "kind": "Region", "metadata": metadata, "spec": {}, "status": status})
    return refs


@asynccontextmanager
async def many(count: int, *unsettled: int) -> AsyncIterator[tuple[Passes, Runtime, list[Ref]]]:
    """A runtime with one worker over so many regions at rest."""
    cache = Cache(TYPES)
    refs = regions(cache, count, *unsettled)
    passes = Passes(lambda key, nth: Ready())
    async with started(runtime_of(cache, passes)) as runtime:
        yield passes, runtime, refs


async def test_a_start_looks_first_at_what_changed_while_nobody_did() -> None:
    async with many(100, 98, 99) as (passes, runtime, refs):
        await runtime.idle()
    assert [key for key, _ in passes.seen] == [*refs[98:], *refs[:98]]


@pytest.mark.parametrize("wanted", ["wake", "look"])
async def test_changes_that_were_seen_while_another_acted_are_no_news_at_the_start(wanted: str) -> None:
    """A standby sees every engine. Those that are Ready would come before what somebody waits for."""
    cache = Cache(TYPES)
    refs = regions(cache, 100, 99)
    passes = Passes(lambda key, nth: Ready())
    runtime = runtime_of(cache, passes)
    for ref in refs:
        getattr(runtime, wanted)(ref)
    async with started(runtime):
        await runtime.idle()
    assert [key for key, _ in passes.seen] == [refs[99], *refs[:99]]


@pytest.mark.parametrize("wanted", ["wake", "look"])
async def test_what_somebody_waits_for_comes_before_the_rest_of_a_resync(wanted: str) -> None:
    async with many(100) as (passes, runtime, refs):
        await runtime.idle()
        passes.seen.clear()
        runtime.resync()
        getattr(runtime, wanted)(refs[99])
        await runtime.idle()
    assert [key for key, _ in passes.seen] == [refs[99], *refs[:99]]


async def test_a_change_comes_before_the_rest_of_a_start() -> None:
    cache = Cache(TYPES)
    *_, last = regions(cache, 100)
    passes = Passes(lambda key, nth: Ready())
    async with started(runtime_of(cache, passes)) as runtime:
        await passes.until(lambda: len(passes.seen) >= 3)
        before = len(passes.seen)
        document = cache.document(last)
        assert document is not None
        cache.absorb({**document, "metadata": {**document["metadata"], "resourceVersion": "2", "generation": 3}})
        await runtime.idle()
    assert [key for key, _ in passes.seen].index(last) <= before + 2


async def test_one_tenant_whose_engines_never_answer_leaves_workers_to_the_others() -> None:
    cache = Cache(TYPES)
    hanging = [Ref("Environment", "tenant-stuck", f"e{number}") for number in range(50)]
    other = Ref("Environment", "tenant-other", "e0")
    for ref in (*hanging, other):
        cache.absorb(environment(ref))
    answers = asyncio.Event()

    class Hanging(Passes):
        async def run(self, key: Ref, view: TrackedView, *, asked: bool = True) -> Ended:
            ended = await super().run(key, view, asked=asked)
            if key.namespace == "tenant-stuck":
                await answers.wait()
            return ended

    passes = Hanging(lambda key, nth: Ready())
    async with started(runtime_of(cache, passes, workers=8)) as runtime:
        for turns in range(1, 10):
            await passes.until(lambda: [key for key, _ in passes.seen].count(other) == turns)  # noqa: B023 - awaited at once
            runtime.wake(other)
        assert len({key for key, _ in passes.seen if key != other}) == 2
        answers.set()
        await runtime.idle()
    assert {key for key, _ in passes.seen} == {*hanging, other}


def environment(ref: Ref) -> dict[str, Any]:
    metadata = {"name": ref.name, "namespace": ref.namespace, "uid": f"{ref.namespace}-{ref.name}", "resourceVersion": "1"}
    spec = {"region": "eu"}
    return {"apiVersion": API_VERSION, "kind": ref.kind, "metadata": metadata | {"generation": 1}, "spec": spec, "status": {}}
