"""A Source at rest: nothing new in its repository, and nothing new here, cost next to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Ref
from tenantry.model.tree import Declared, Place, Revision, Tree
from tenantry.runtime.cache import Cache, Entry
from tenantry.runtime.following.following import TELL_AGAIN, SourceFollowing
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.support.followed_sources import SOURCE, TIP, Kit, Remotes, order
from tests.support.patience import DEADLINE_S
from tests.unit.runtime.held_data import no_data

ADMISSION = Admission()


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    cache, remotes, news = Cache(TYPES), Remotes(), asyncio.Queue[Ref]()
    store = WritingStore(MemoryStore(ADMISSION), cache)
    following = SourceFollowing(store, cache, remotes, frozenset(), news.put_nowait, no_data)
    yield Kit(following, remotes, cache, store, news)
    await following.aclose()


def regions(count: int) -> Tree:
    head = {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Region"}
    admitted = (ADMISSION.admit({**head, "metadata": {"name": f"r{n}"}, "spec": {}}, None) for n in range(count))
    return Tree(tuple(Declared.of(each, Place("a.yaml", 1)) for each in admitted), revision=Revision(TIP))


@dataclass
class Counted:
    """The cost of syncs: objects that were parsed, and writes."""

    now: datetime = datetime(2026, 11, 21, 12, tzinfo=UTC)
    parsed: int = 0
    written: int = 0

    def spent(self) -> tuple[int, int]:
        spent, self.parsed, self.written = (self.parsed, self.written), 0, 0
        return spent


@pytest.fixture
def counted(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> Counted:
    counts, parse = Counted(), Entry.document

    def document(entry: Entry) -> dict[str, Any]:
        counts.parsed += 1
        return parse(entry)

    monkeypatch.setattr(Entry, "document", document)
    monkeypatch.setattr("tenantry.runtime.following.following._now", lambda: counts.now)
    for verb in ("create", "replace", "delete"):
        monkeypatch.setattr(kit.store, verb, counting(counts, getattr(kit.store, verb)))
    return counts


def counting(counts: Counted, write: Any) -> Any:
    async def written(*given: Any) -> Any:
        counts.written += 1
        return await write(*given)

    return written


async def at_rest(kit: Kit, tree: Tree) -> Any:
    """A function that syncs once more, after two syncs: the first one writes, the second finds nothing to write."""
    kit.remotes.reads = [lambda: tree]
    await kit.following.follow(order())
    await kit.told()
    sync = kit.following._running[SOURCE].feed.sync  # type: ignore[union-attr]
    await sync()
    return sync


async def test_a_sync_at_rest_parses_nothing_writes_nothing_and_is_no_news(kit: Kit, counted: Counted) -> None:
    sync = await at_rest(kit, regions(50))
    assert (counted.spent()[1], kit.news.qsize()) == (50, 0)
    assert kit.following.look(SOURCE, "u1").objects == 50  # type: ignore[union-attr]
    for _ in range(3):
        await sync()
    assert (counted.spent(), kit.news.qsize()) == ((0, 0), 0)


async def test_that_nothing_is_new_is_told_now_and_then(kit: Kit, counted: Counted) -> None:
    sync = await at_rest(kit, regions(1))
    for passed, news in ((timedelta(minutes=1), 0), (TELL_AGAIN, 1), (timedelta(minutes=1), 0)):
        counted.now += passed
        await sync()
        assert kit.news.qsize() == news
        if news:
            assert (await kit.told()).ended == counted.now


EDITS: dict[str, dict[str, Any]] = {
    "its spec": {"spec": {"displayName": "by hand"}},
    "its labels": {"metadata": {"labels": {}}},
    "its annotations": {"metadata": {"annotations": {}}},
}


@pytest.mark.parametrize("edit", EDITS)
async def test_what_somebody_edits_by_hand_is_brought_back_by_the_next_sync(kit: Kit, counted: Counted, edit: str) -> None:
    sync = await at_rest(kit, regions(2))
    region = Ref("Region", "", "r1")
    stored = await kit.store.get(region)
    metadata = {**stored["metadata"], **EDITS[edit].get("metadata", {})}
    await kit.store.replace({**stored, **EDITS[edit], "metadata": metadata}, stored["metadata"]["resourceVersion"])
    counted.spent()
    await sync()
    again = await kit.store.get(region)
    assert counted.spent()[1] == 1
    assert (again["spec"], again["metadata"]["labels"]) == (stored["spec"], stored["metadata"]["labels"])


async def test_what_befalls_another_namespace_is_nothing_to_a_tenant_s_source(kit: Kit, counted: Counted) -> None:
    inside = SOURCE._replace(namespace="tenant-acme")
    kit.remotes.reads = [lambda: Tree(revision=Revision(TIP))]
    await kit.following.follow(replace(order(tenant="acme"), source=inside))
    async with asyncio.timeout(DEADLINE_S):
        await kit.news.get()
    sync = kit.following._running[inside].feed.sync  # type: ignore[union-attr]
    for namespace, parsed in (("tenant-umbra", False), ("tenant-acme", True)):
        await kit.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        app = {
            "metadata": {"name": "dev.crm", "namespace": namespace},
            "spec": {"environment": "dev", "app": "crm", "version": "1"},
        }
        await kit.store.create({"apiVersion": "tenantry.dev/v1alpha1", "kind": "App", **app})
        counted.spent()
        await sync()
        assert bool(counted.spent()[0]) == parsed
