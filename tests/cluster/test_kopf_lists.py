"""kopf lists no objects: each of its lists is followed by one of ours, which misses nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.wire import endpoint, received
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.hosts.kopf_host import KopfHost, Watched
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Document, Ref, held_of, ref_of
from tenantry.runtime.cache import Cache
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of, until
from tests.cluster.running import object_
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

KINDS = ("Region", "Tenant")
LISTED_ONCE = Counter(dict.fromkeys(KINDS, 1))
GHOST = Ref("Region", "", "went-in-between")


class CountingFeed(KubernetesFeed):
    """Counts its lists. after: called with a kind whose list has begun, and of which nothing is in the cache yet."""

    def __init__(self, client: Client, after: Callable[[str], Awaitable[None]] | None = None) -> None:
        super().__init__(client)
        self.lists: Counter[str] = Counter()
        self._after = after

    async def pages(self, kind: str) -> AsyncIterator[tuple[Sequence[Document], str]]:
        self.lists[kind] += 1
        told = False
        async for page in super().pages(kind):
            if self._after is not None and not told:
                await self._after(kind)
            told = True
            yield page


@asynccontextmanager
async def started(cluster: Cluster, feed: CountingFeed, cache: Cache) -> AsyncIterator[KopfHost]:
    at = {kind: endpoint(kind) for kind in KINDS}
    watched = [Watched(kind, each.api_version, each.plural, each.selector) for kind, each in at.items()]
    health = f"http://127.0.0.1:{free_port()}/healthz"
    runtime: Any = SimpleNamespace()
    access = from_kubeconfig(cluster.kubeconfig).access
    host = KopfHost(feed, cache, runtime, watched, access, received, health=health, resync_s=3600)
    await host.start()
    try:
        yield host
    finally:
        await host.stop()


async def test_a_start_lists_each_kind_once(cluster: Cluster) -> None:
    async with client_of(cluster) as client:
        store, cache, feed = KubernetesStore(client), Cache(TYPES), CountingFeed(client)
        made = await store.create(object_("Region", "listed-once"))
        try:
            async with started(cluster, feed, cache):
                assert cache.document(Ref("Region", "", "listed-once")) is not None
                changed = await store.create(object_("Region", "came-later"))
                await until(lambda: cache.document(ref_of(changed)) is not None, "kopf does not watch")
                await store.delete(held_of(changed))
                await until(lambda: cache.document(ref_of(changed)) is None, "kopf does not watch")
                assert feed.lists == LISTED_ONCE
        finally:
            await store.delete(held_of(made))


async def test_an_object_that_goes_while_it_is_listed_does_not_come_back(cluster: Cluster) -> None:
    async with client_of(cluster) as client:
        store, cache = KubernetesStore(client), Cache(TYPES)
        ghost = await store.create(object_("Region", GHOST.name))

        async def go(kind: str) -> None:
            if kind == GHOST.kind:
                await store.delete(held_of(ghost))
                await until(lambda: cache._gone, "kopf has not reported it")

        async with started(cluster, CountingFeed(client, go), cache):
            assert cache.document(GHOST) is None


async def test_what_went_without_an_event_is_gone_once_kopf_lists_anew(cluster: Cluster) -> None:
    """Also the last of its kind."""
    async with client_of(cluster) as client:
        store, cache, feed = KubernetesStore(client), Cache(TYPES), CountingFeed(client)
        async with started(cluster, feed, cache) as host:
            ghost = await store.create(object_("Region", GHOST.name))
            await store.delete(held_of(ghost))
            await until(lambda: cache.document(GHOST) is None, "kopf has not reported it")
            cache.absorb(ghost)
            host._ask(GHOST.kind)
            await until(lambda: cache.document(GHOST) is None, "the cache still holds it")
            assert feed.lists == LISTED_ONCE + Counter({GHOST.kind: 1})
