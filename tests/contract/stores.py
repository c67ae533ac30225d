"""The stores that the contract holds for: one row each. A row yields something that is both Store and Feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.kinds.admission import Admission
from tenantry.ports import Feed, Store
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of

ADMISSION = Admission()
"""Compiled once: it holds no state."""


class StoreAndFeed(Store, Feed, Protocol):
    """Both ports of one adapter."""


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[StoreAndFeed]:
    yield MemoryStore(ADMISSION)


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[StoreAndFeed]:
    store = await SqliteStore.open(folder, ADMISSION)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def kubernetes(cluster: Cluster, folder: Path) -> AsyncIterator[StoreAndFeed]:
    async with client_of(cluster) as client:
        # Pages of two: every list of the suite that matters has more than one.
        yield OnKubernetes(KubernetesStore(client), KubernetesFeed(client, page=2))


class OnKubernetes(KubernetesStore):
    """Both ports as one object."""

    def __init__(self, store: KubernetesStore, feed: KubernetesFeed) -> None:
        vars(self).update(vars(store))
        self.pages = feed.pages
        self.watch = feed.watch


Row = Callable[[Path], AbstractAsyncContextManager[StoreAndFeed]]
STORES: dict[str, Callable[[pytest.FixtureRequest], Row]] = {
    "memory": lambda request: memory,
    "sqlite": lambda request: sqlite,
    "kubernetes": lambda request: partial(kubernetes, request.getfixturevalue("cluster")),
}
MARKS: dict[str, Any] = {"kubernetes": [pytest.mark.slow, pytest.mark.cluster]}
