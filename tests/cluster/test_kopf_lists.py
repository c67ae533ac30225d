"""A kind that kopf listed is listed again only where the cache holds more."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.wire import endpoint, received
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.hosts.kopf_host import KopfHost, Watched
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Document, Ref, held_of
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
    """Counts its lists. went: an object that its first list of a kind holds, and kopf's no more."""

    def __init__(self, client: Client, went: Document | None = None) -> None:
        super().__init__(client)
        self.lists: Counter[str] = Counter()
        self._went = went

    async def list(self, kind: str) -> tuple[Sequence[Document], str]:
        documents, version = await super().list(kind)
        self.lists[kind] += 1
        if self._went is not None and kind == self._went["kind"] and self.lists[kind] == 1:
            documents = (*documents, self._went)
        return documents, version


@pytest.fixture
def kubeconfig(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster, for kopf."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))


@asynccontextmanager
async def started(feed: CountingFeed, cache: Cache) -> AsyncIterator[KopfHost]:
    at = {kind: endpoint(kind) for kind in KINDS}
    watched = [Watched(kind, each.api_version, each.plural, each.selector) for kind, each in at.items()]
    health = f"http://127.0.0.1:{free_port()}/healthz"
    host = KopfHost(feed, cache, SimpleNamespace(), watched, received, health=health, resync_s=3600)  # type: ignore[arg-type]
    await host.start()
    try:
        yield host
    finally:
        await host.stop()


async def test_a_start_lists_each_kind_once_beside_kopf(cluster: Cluster, kubeconfig: None) -> None:
    async with client_of(cluster) as client:
        store, cache, feed = KubernetesStore(client), Cache(TYPES), CountingFeed(client)
        made = await store.create(object_("Region", "listed-once"))
        try:
            async with started(feed, cache) as host:
                await until(lambda: not host._listings, "kopf's lists are not judged")
                assert feed.lists == LISTED_ONCE
                assert cache.document(Ref("Region", "", "listed-once")) is not None
        finally:
            await store.delete(held_of(made))


async def test_what_went_between_both_lists_is_gone_from_the_cache(cluster: Cluster, kubeconfig: None) -> None:
    """Also the last of its kind, for which kopf has no event at all."""
    async with client_of(cluster) as client:
        store, cache = KubernetesStore(client), Cache(TYPES)
        ghost = await store.create(object_("Region", GHOST.name))
        await store.delete(held_of(ghost))
        feed = CountingFeed(client, went=ghost)
        async with started(feed, cache):
            assert cache.document(GHOST) is not None
            await until(lambda: cache.document(GHOST) is None, "the cache still holds it")
            assert feed.lists == LISTED_ONCE + Counter({"Region": 1})
