"""Objects that a source waits for, whenever they appear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from structlog.testing import capture_logs

from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Ref
from tenantry.model.tree import Declared, Place, Tree
from tenantry.runtime.cache import Cache
from tenantry.runtime.following.feed import SourceFeed
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.sync import Syncer
from tests.support.patience import DEADLINE_S
from tests.unit.runtime.held_data import no_data

DEV = Ref("Environment", "tenant-acme", "dev")
ENVIRONMENT = {
    "apiVersion": "tenantry.dev/v1alpha1",
    "kind": DEV.kind,
    "metadata": {"name": DEV.name, "namespace": DEV.namespace},
    "spec": {"region": "eu"},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEV.namespace}}
TREE = Tree((Declared.of(ENVIRONMENT, Place("a.yaml", 1), "digest"),))


async def read() -> Tree:
    return TREE


async def never() -> AsyncIterator[None]:
    await asyncio.Event().wait()
    yield


async def applied(tree: Tree) -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("moment", ["before the sync", "before it runs", "while it runs"])
async def test_what_waits_for_a_namespace_comes_whenever_that_appears(moment: str) -> None:
    cache = Cache(TYPES)
    memory = MemoryStore(Admission())
    store = WritingStore(memory, cache)
    feed = SourceFeed("here", read, never, Syncer(store, memory, "default", (), holding=no_data), cache, applied)
    if moment == "before the sync":
        await store.create(NAMESPACE)
    await feed.sync()
    if moment == "before it runs":
        await store.create(NAMESPACE)
    following = asyncio.create_task(feed.run())
    if moment == "while it runs":
        await asyncio.sleep(0)
        await store.create(NAMESPACE)
    try:
        await appears(cache, lambda: cache.entry(DEV) is not None)
    finally:
        following.cancel()


async def appears(cache: Cache, there: Callable[[], bool]) -> None:
    changed = asyncio.Event()
    unlisten = cache.listen(lambda seen: changed.set())
    async with asyncio.timeout(DEADLINE_S):
        while not there():
            await changed.wait()
            changed.clear()
    unlisten()


@pytest.mark.slow
async def test_a_bug_in_a_sync_becomes_a_problem_of_the_source_and_a_later_sync_ends_it() -> None:
    cache = Cache(TYPES)
    memory = MemoryStore(Admission())
    store = WritingStore(memory, cache)
    bugs: list[Exception] = [OverflowError("a secret"), KeyError("a secret")]

    async def fails() -> Tree:
        if bugs:
            raise bugs.pop()
        return TREE

    feed = SourceFeed("here", fails, never, Syncer(store, memory, "default", (), holding=no_data), cache, applied)
    await store.create(NAMESPACE)
    with capture_logs() as logs:
        await feed.sync()
    (problem,) = map(str, feed.last.problems)
    assert problem.startswith("source: not read, the last good state stays: a bug of the platform: KeyError at ")
    assert [each["event"] for each in logs] == ["sync failed"]
    following = asyncio.create_task(feed.run())
    try:
        await appears(cache, lambda: cache.entry(DEV) is not None)
        async with feed.turn():  # its sync has ended
            assert feed.last.problems == ()
    finally:
        following.cancel()
