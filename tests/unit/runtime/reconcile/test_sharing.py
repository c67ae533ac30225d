"""A loop that shares its objects with other processes: it reconciles its own, takes over more and hands over some."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tenantry.kinds.registry import KINDS, TYPES
from tenantry.model.resource import API_VERSION, SYSTEM_NAMESPACE, Document, Ref
from tenantry.model.sharding.shards import HeldShards, shard_of
from tenantry.model.verdicts import Ready, Verdict
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.cycle import Cycle, Ended
from tenantry.runtime.reconcile.following import TrackedView
from tenantry.runtime.reconcile.loop import Runtime
from tests.support.waiting import eventually

COUNT = 4
REGIONS = [Ref("Region", "", name) for name in ("eu", "us")]
PACKAGES = [Ref("Package", f"tenant-{number}", "crm") for number in range(12)]
ALL = frozenset([*REGIONS, *PACKAGES])


def document(ref: Ref, version: int = 1) -> Document:
    metadata: dict[str, Any] = {"name": ref.name, "uid": str(ref), "resourceVersion": str(version), "generation": version}
    spec: dict[str, Any] = {}
    metadata["labels"] = {"version": str(version)}
    if ref.namespace:
        metadata["namespace"] = ref.namespace
        spec = {"app": "crm", "version": "1.0.0", "sha256": "0" * 64}
    return {"apiVersion": API_VERSION, "kind": ref.kind, "metadata": metadata, "spec": spec, "status": {}}


class Passes:
    """A Cycle that notes its passes. hangs: objects whose passes do not end by themselves."""

    def __init__(self) -> None:
        self.ended: list[Ref] = []
        self.running: set[Ref] = set()
        self.complete: dict[Ref, bool] = {}
        self.hangs: set[Ref] = set()
        self.reads: dict[Ref, Ref] = {}
        self.verdict: Verdict = Ready()

    async def run(self, key: Ref, view: TrackedView, *, asked: bool = True) -> Ended:
        self.running.add(key)
        self.complete[key] = view.complete()
        if key in self.reads:
            view.peek(self.reads[key])
        try:
            if key in self.hangs:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            self.ended.append(key)
            return Ended(self.verdict)
        finally:
            self.running.remove(key)


class Sharing:
    """A running loop over regions and packages of several namespaces, which holds no shard yet."""

    def __init__(self) -> None:
        self.cache = Cache(TYPES)
        for ref in ALL:
            self.cache.absorb(document(ref))
        self.passes, self.held, self.others_looked = Passes(), HeldShards(), True
        self.runtime = Runtime(
            KINDS,
            self.cache,
            cast(Cycle, self.passes),
            time=time.monotonic,
            now=lambda: datetime.now(UTC),
            workers=4,
            owns=self.held,
            others_looked=lambda: self.others_looked,
        )

    def of(self, *shards: int) -> set[Ref]:
        return {ref for ref in ALL if shard_of(ref, COUNT) in shards}

    def take(self, *shards: int) -> None:
        self.held.hold(COUNT, self.held.held | set(shards))
        self.runtime.take_over(self.held.among(frozenset(shards)))

    async def give(self, *shards: int) -> None:
        self.held.hold(COUNT, self.held.held - set(shards))
        await self.runtime.hand_over(self.held.among(frozenset(shards)))

    async def settled(self) -> list[Ref]:
        """Return the passes since the last time, once nothing is to be done."""
        await self.runtime.idle()
        ended, self.passes.ended = self.passes.ended, []
        return sorted(ended)


@pytest.fixture
async def sharing() -> AsyncIterator[Sharing]:
    async with _running() as one:
        yield one


@asynccontextmanager
async def _running() -> AsyncIterator[Sharing]:
    one = Sharing()
    one.runtime.start()
    try:
        yield one
    finally:
        await one.runtime.stop()


def test_the_objects_are_in_several_shards() -> None:
    one = Sharing()
    assert all(one.of(shard) for shard in range(COUNT))
    assert set(REGIONS) <= one.of(0)


async def test_without_a_shard_nothing_is_reconciled(sharing: Sharing) -> None:
    sharing.runtime.resync()
    for ref in ALL:
        sharing.cache.absorb(document(ref, 2))
        sharing.runtime.wake(ref)
        sharing.runtime.look(ref)
    assert await sharing.settled() == []


async def test_each_object_of_a_taken_shard_is_reconciled_once_and_no_other(sharing: Sharing) -> None:
    sharing.take(0)
    assert await sharing.settled() == sorted(sharing.of(0))
    sharing.take(2, 3)
    assert await sharing.settled() == sorted(sharing.of(2, 3))
    assert sharing.runtime.looked


async def test_all_shards_together_reconcile_every_object(sharing: Sharing) -> None:
    sharing.take(*range(COUNT))
    assert await sharing.settled() == sorted(ALL)


async def test_a_change_wakes_the_objects_of_held_shards_only(sharing: Sharing) -> None:
    sharing.take(1)
    await sharing.settled()
    for ref in ALL:
        sharing.cache.absorb(document(ref, 2))
    assert await sharing.settled() == sorted(sharing.of(1))


async def test_a_change_in_another_shard_wakes_its_readers_here(sharing: Sharing) -> None:
    reader, other = min(sharing.of(1)), min(sharing.of(2))
    sharing.passes.reads[reader] = other
    sharing.take(1)
    await sharing.settled()
    sharing.cache.absorb(document(other, 2))
    assert await sharing.settled() == [reader]
    await sharing.give(1)
    sharing.cache.absorb(document(other, 3))
    assert await sharing.settled() == []


async def test_an_operation_that_others_open_wakes_its_target_where_its_shard_is(sharing: Sharing) -> None:
    sharing.take(1)
    await sharing.settled()
    for number, ref in enumerate(sorted(sharing.of(1, 2))):
        target = {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name, "uid": str(ref)}
        spec = {"action": "UPLOAD_APP", "target": target, "cause": "1"}
        metadata = {"name": f"op-{number}", "namespace": SYSTEM_NAMESPACE, "uid": f"op-{number}", "resourceVersion": "9"}
        sharing.cache.absorb({"apiVersion": API_VERSION, "kind": "Operation", "metadata": metadata, "spec": spec, "status": {}})
    assert await sharing.settled() == sorted(sharing.of(1))


async def test_no_pass_of_a_given_shard_is_under_way_and_the_others_go_on(sharing: Sharing) -> None:
    sharing.passes.hangs = sharing.of(1, 2)
    sharing.take(1, 2)
    await eventually(lambda: len(sharing.passes.running) == 4)
    before = set(sharing.passes.running)
    sharing.passes.hangs = sharing.of(1)
    await sharing.give(1)
    assert sharing.passes.running == before - sharing.of(1)
    await sharing.give(2)
    assert not sharing.passes.running
    sharing.passes.hangs = set()
    sharing.take(3)
    assert await sharing.settled() == sorted(sharing.of(3)), "the cut off workers were replaced"


async def test_what_waits_in_a_given_shard_is_not_reconciled(sharing: Sharing) -> None:
    sharing.take(1, 2)
    await sharing.give(1)
    assert await sharing.settled() == sorted(sharing.of(2))


async def test_a_shard_that_comes_back_is_reconciled_again(sharing: Sharing) -> None:
    sharing.take(1)
    await sharing.settled()
    await sharing.give(1)
    sharing.take(1)
    assert await sharing.settled() == sorted(sharing.of(1))


async def test_every_object_has_been_looked_at_once_the_others_say_so_of_theirs(sharing: Sharing) -> None:
    sharing.take(1)
    await sharing.settled()
    one = min(sharing.of(1))
    for others in (False, True):
        sharing.others_looked = others
        sharing.runtime.wake(one)
        await sharing.settled()
        assert sharing.passes.complete[one] == others


async def test_what_the_store_has_shown_is_asked_for_again_after_a_take_over(sharing: Sharing) -> None:
    """Another process may have let the object go, and this one's list may be older."""
    sharing.cache.confirmed.add("seen")
    sharing.take(1)
    assert not sharing.cache.confirmed
