"""Declares Tenants with an Environment each, as people do, and sees them come to Ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.hosts.standalone import listed
from tests.bench.cluster.place import CLIENTS, Object, object_, play

REGION = "here"
PATIENCE_S = 1800.0


def tenant(number: int) -> Object:
    return object_("Tenant", f"t{number}", displayName=f"Tenant {number}")


def environment(number: int, name: str = "dev") -> Object:
    return object_("Environment", name, f"tenant-t{number}", region=REGION, displayName=f"Environment {number}")


class Declaring:
    """So many Tenants, and an Environment in each once it is Ready; over CLIENTS connections."""

    def __init__(self, client: Client, tenants: int, first: int = 0, known: frozenset[tuple[str, str]] = frozenset()) -> None:
        """first: the number of the first Tenant; known: the kind and uid of objects that are Ready already."""
        self._client = client
        self._store = KubernetesStore(client)
        self._numbers = range(first, first + tenants)
        self._known = known
        self._wanted: asyncio.Queue[Object] = asyncio.Queue()
        self._ready: set[tuple[str, str]] = {*known}
        self._done = asyncio.Event()

    async def run(self) -> float:
        """The seconds from the first declaration until all are Ready. The Region is there before."""
        watching = [asyncio.create_task(self._watch(kind, await self._version(kind))) for kind in ("Tenant", "Environment")]
        watching.append(asyncio.create_task(play(self._client)))
        start = time.perf_counter()
        for number in self._numbers:
            self._wanted.put_nowait(tenant(number))
        working = [asyncio.create_task(self._declare()) for _ in range(CLIENTS)]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._all_ready(*watching, *working)
        finally:
            for task in (*watching, *working):
                task.cancel()
            await asyncio.gather(*watching, *working, return_exceptions=True)
        return time.perf_counter() - start

    @property
    def ready(self) -> frozenset[tuple[str, str]]:
        """Return the kind and uid of each object that is Ready."""
        return frozenset(self._ready)

    async def _all_ready(self, *tasks: asyncio.Task[None]) -> None:
        """Raises what ends one of the tasks before."""
        done = asyncio.create_task(self._done.wait())
        await asyncio.wait((done, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()

    async def _declare(self) -> None:
        while True:
            await self._store.create(await self._wanted.get())

    async def _version(self, kind: str) -> str:
        return (await listed(KubernetesFeed(self._client), kind))[1]

    async def _watch(self, kind: str, version: str) -> None:
        async for event in KubernetesFeed(self._client).watch(kind, version):
            uid = event.document["metadata"]["uid"]
            if (kind, uid) in self._ready or not is_ready(event.document):
                continue
            self._ready.add((kind, uid))
            if kind == "Tenant":
                self._wanted.put_nowait(environment(int(event.document["metadata"]["name"].removeprefix("t"))))
            if len(self._ready) == 2 * len(self._numbers) + len(self._known):
                self._done.set()


def is_ready(document: Mapping[str, Any]) -> bool:
    conditions = document.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
