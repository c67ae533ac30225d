"""The cache keeps abreast of a real API server, whatever happens to it: the host's own code, unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.hosts.standalone import fill, follow, listed
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import CREDENTIAL_LABEL, Document, Ref, held_of, ref_of
from tenantry.model.verdicts import AlreadyExists, Expired, Halt, NotFound
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of, install, own_plane, until
from tests.support.patience import DEADLINE_S

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane that may be stopped: never one that was given."""
    with own_plane(tmp_path_factory.mktemp("own")) as cluster:
        asyncio.run(install(cluster))
        yield cluster


@pytest.fixture
async def client(own: Cluster) -> AsyncIterator[Client]:
    async with client_of(own) as client:
        yield client


def tenant(name: str, display_name: str = "") -> Document:
    spec = {"displayName": display_name} if display_name else {}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def following(client: Client, cache: Cache, kind: str = "Tenant") -> AsyncIterator[None]:
    feed = KubernetesFeed(client, page=2)
    task = asyncio.create_task(follow(feed, cache, kind, await fill(feed, cache, kind)))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def seen(cache: Cache, name: str, *, there: bool = True, kind: str = "Tenant", namespace: str = "") -> None:
    async def holds() -> bool:
        return (cache.document(Ref(kind, namespace, name)) is not None) is there

    await until(holds, f"{name} is {'not yet' if there else 'still'} in the cache")


async def remove(store: KubernetesStore, name: str) -> None:
    await store.delete(held_of(await store.get(Ref("Tenant", "", name))))


async def test_what_others_write_is_seen(client: Client) -> None:
    store, cache = KubernetesStore(client), Cache(TYPES)
    await store.create(tenant("before"))
    async with following(client, cache):
        await seen(cache, "before")
        await store.create(tenant("after"))
        await seen(cache, "after")
        await remove(store, "before")
        await seen(cache, "before", there=False)
    await remove(store, "after")


async def test_own_writes_are_seen_at_once_and_stay_while_a_list_is_under_way(client: Client) -> None:
    store, cache, feed = KubernetesStore(client), Cache(TYPES), KubernetesFeed(client)
    writing = WritingStore(store, cache)
    documents, version = await listed(feed, "Tenant")
    created = await writing.create(tenant("own"))
    assert cache.document(Ref("Tenant", "", "own")) == created
    cache.sweep("Tenant", {ref_of(document)[1:] for document in documents}, int(version))
    assert cache.document(Ref("Tenant", "", "own")) == created
    await writing.delete(held_of(created))
    assert cache.document(Ref("Tenant", "", "own")) is None


async def test_a_secret_is_seen_while_it_is_a_credential(client: Client) -> None:
    store, cache = KubernetesStore(client), Cache(TYPES)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    created = await store.create(secret)
    labelled = {**created, "metadata": {**created["metadata"], "labels": {CREDENTIAL_LABEL: "User"}}}
    async with following(client, cache, "Secret"):
        await seen(cache, "s", there=False, kind="Secret", namespace="default")
        stored = await store.replace(labelled, created["metadata"]["resourceVersion"])
        await seen(cache, "s", kind="Secret", namespace="default")
        bare = {**stored, "metadata": {**stored["metadata"], "labels": {}}}
        stored = await store.replace(bare, stored["metadata"]["resourceVersion"])
        await seen(cache, "s", there=False, kind="Secret", namespace="default")
    await store.delete(held_of(stored))


@pytest.mark.parametrize("stopped", [("kube-apiserver",), ("etcd",), ("kube-apiserver", "etcd")], ids=" and ".join)
async def test_an_outage_is_outlasted(own: Cluster, client: Client, stopped: tuple[str, ...]) -> None:
    plane = own.control_plane
    assert plane is not None
    store, cache = KubernetesStore(client), Cache(TYPES)
    await store.create(tenant("kept"))
    async with following(client, cache):
        await seen(cache, "kept")
        await asyncio.to_thread(plane.stop, *stopped)
        await asyncio.to_thread(plane.start)
        await until(lambda: created(store, "later"), "no write succeeds")
        await seen(cache, "later")
        await remove(store, "kept")
        await seen(cache, "kept", there=False)
    await remove(store, "later")


async def created(store: KubernetesStore, name: str) -> bool:
    """Right after a restart the server may still refuse."""
    try:
        await store.create(tenant(name))
    except AlreadyExists:
        return True
    except Halt:
        return False
    return True


async def test_what_went_while_nobody_watched_is_swept(own: Cluster, client: Client, tmp_path: Path) -> None:
    """The version has been compacted away: the watch expires, and the list finds out what is missing."""
    store, cache, feed = KubernetesStore(client), Cache(TYPES), KubernetesFeed(client)
    await store.create(tenant("gone"))
    version = await fill(feed, cache, "Tenant")
    await remove(store, "gone")
    for turn in range(3):
        await store.create(tenant(f"turn-{turn}"))
    plane = own.control_plane
    assert plane is not None
    plane.compact()
    await asyncio.to_thread(plane.stop, "kube-apiserver")
    await asyncio.to_thread(plane.start)
    with pytest.raises(Expired):
        async with asyncio.timeout(DEADLINE_S):
            await anext(aiter(feed.watch("Tenant", version)))

    task = asyncio.create_task(follow(feed, cache, "Tenant", version))
    try:
        await seen(cache, "gone", there=False)
        await seen(cache, "turn-2")
    finally:
        task.cancel()
    for turn in range(3):
        with suppress(NotFound):
            await remove(store, f"turn-{turn}")
