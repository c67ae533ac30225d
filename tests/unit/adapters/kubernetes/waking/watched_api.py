"""An API server in memory whose EndpointSlices are watched, and an environment whose engine sleeps there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.workload import namespace_of
from tenantry.adapters.kubernetes.waking.slice_keeper import SleepingEngine
from tenantry.adapters.kubernetes.waking.slices import API_VERSION, KIND, SLICE
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tests.unit.adapters.kubernetes.engines.fake_api import FakeApi

REF = EngineRef("tenant-acme", "dev", "0b5e8e6c-8a3f-4d1e-9d2b-000000000000")
SPACE = namespace_of(REF.id)
PATH = path_of(API_VERSION, KIND, SPACE, SLICE)
API_PATH = path_of(API_VERSION, KIND, "tenantry-system", "tenantry-api-x")
OWN_PATH = path_of(API_VERSION, KIND, SPACE, "engine-x")
SLEEPS, RUNS, STARTS = SleepingEngine(True, False), SleepingEngine(False, True), SleepingEngine(False, False)


def of_api(*addresses: str, port: str = "activator", family: str = "IPv4", ready: bool | None = True) -> dict[str, Any]:
    conditions = {} if ready is None else {"ready": ready}
    endpoints = [{"addresses": [each], "conditions": conditions} for each in addresses]
    return {
        "addressType": family,
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080}, {"name": port, "port": 8083}],
    }


@dataclass
class Watched(FakeApi):
    """An API server whose slices are watched."""

    changed: list[asyncio.Queue[tuple[str, Document]]] = field(default_factory=list)

    def _stored(self, path: str, body: Document, made: bool = False) -> Document:
        before = path in self.held
        stored = super()._stored(path, body, made)
        self._tell("MODIFIED" if before else "ADDED", path, stored)
        return stored

    def _delete(self, path: str) -> None:
        held = self.held[path]
        super()._delete(path)
        self._tell("DELETED", path, held)

    def _tell(self, type_: str, path: str, stored: Document) -> None:
        if stored["kind"] == KIND:
            for queue in self.changed:
                queue.put_nowait((type_, stored))

    def _answer(self, method: str, path: str, body: Any) -> Document:
        if method == "GET" and path == path_of(API_VERSION, KIND):
            items = [each for each in self.held.values() if each["kind"] == KIND]
            return {"items": items, "metadata": {"resourceVersion": "1"}}
        return super()._answer(method, path, body)

    async def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None, **rest: Any) -> Document:
        answer = await super().request(method, path, query=query, **rest)
        if "items" in answer and query is not None:
            return {**answer, "items": [each for each in answer["items"] if _selected(each, query["labelSelector"])]}
        return answer

    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Document]:
        queue: asyncio.Queue[tuple[str, Document]] = asyncio.Queue()
        self.changed.append(queue)
        while True:
            type_, document = await queue.get()
            if _selected(document, query["labelSelector"]) and (
                path == path_of(API_VERSION, KIND) or f"/namespaces/{document['metadata']['namespace']}/" in path
            ):
                yield {"type": type_, "object": document}

    @property
    def led(self) -> list[str] | None:
        """The addresses of the slice of the engine, None while there is none."""
        held = self.held.get(PATH)
        return [one["addresses"][0] for one in held["endpoints"]] if held is not None else None

    def api(self, *addresses: str) -> None:
        """The api has these pods, or is gone."""
        labels = {"kubernetes.io/service-name": "tenantry-api"}
        metadata = {"name": "tenantry-api-x", "namespace": "tenantry-system", "labels": labels}
        self._stored(API_PATH, {"kind": KIND, "metadata": metadata, **of_api(*addresses)})

    def pod(self, *, ready: bool) -> None:
        """The engine's own slice, of the controller."""
        labels = {
            "kubernetes.io/service-name": "engine",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }
        metadata = {"name": "engine-x", "namespace": SPACE, "labels": labels}
        self._stored(OWN_PATH, {"kind": KIND, "metadata": metadata, **of_api("10.9.9.9", ready=ready)})

    @property
    def writes(self) -> int:
        return sum(1 for method, path in self.asked if method != "GET" and path == PATH)


def _selected(document: Document, selector: str) -> bool:
    name, _, value = selector.partition("=")
    return (document["metadata"].get("labels") or {}).get(name) == value


@dataclass
class Declared:
    """slice_keeper.SleepingEngines of one engine."""

    state: SleepingEngine | None = SLEEPS
    news: asyncio.Queue[EngineRef] = field(default_factory=asyncio.Queue)

    def woken_by_requests(self) -> Iterator[EngineRef]:
        return iter([REF])

    def sleep_of(self, ref: EngineRef) -> SleepingEngine | None:
        return self.state

    async def sleep_changes(self) -> AsyncIterator[EngineRef]:
        while True:
            yield await self.news.get()

    def become(self, state: SleepingEngine | None) -> None:
        self.state = state
        self.news.put_nowait(REF)
