"""The EndpointSlices of engines that sleep, kept as they are to be: they lead to the api, and go once the engine runs.

The pass that lets an engine sleep makes its slice first, so that no request finds nobody. The keeper makes missing ones, follows
the api's pods, and removes what is over. It looks at what there is: a kill at any point converges.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of, reference
from tenantry.adapters.kubernetes.client.watching import Listed, watch_labelled
from tenantry.adapters.kubernetes.engines.applying import apply_object
from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.adapters.kubernetes.engines.observed import ReadObjects
from tenantry.adapters.kubernetes.engines.obstacles import belongs, check_is_ours
from tenantry.adapters.kubernetes.engines.workload import NAME, namespace_of, ref_of_labels
from tenantry.adapters.kubernetes.waking.slices import (
    API_VERSION,
    KIND,
    MANAGER,
    MANAGER_LABEL,
    SERVICE_LABEL,
    ApiAddresses,
    api_addresses,
    is_reached,
    led_to,
    slice_named,
    wanted_slice,
)
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import Halt, NotFound

API_SERVICE = "tenantry-api"
AT_ONCE = 8
"""Slices that are written at the same time: a new pod of the api is one write for each engine that sleeps."""
STAYS_S = 30.0
"""A slice that a pass of this process made stays at least so long: the engine falls asleep after it."""
RETRY_S = 10.0
"""The pause after a failure."""
AGAIN_S = 2.0
"""The pause before an engine is looked at again that runs, but has no ready pod behind its Service yet."""

log = structlog.get_logger(__name__)


class EngineSlice(NamedTuple):
    """Of a slice: the engine of its labels, and where it leads if it stands in the engine's namespace."""

    ref: EngineRef | None
    leads: ApiAddresses | None


class SleepingEngine(NamedTuple):
    """The state of an engine. sleeps: requests wake it, and it sleeps or starts. runs: it is to be reached by itself."""

    sleeps: bool
    runs: bool


class SleepingEngines(Protocol):
    """The keeper's view of declared environments."""

    def woken_by_requests(self) -> Iterator[EngineRef]:
        """The engines that requests wake, whether they sleep or not."""

    def sleep_of(self, ref: EngineRef) -> SleepingEngine | None:
        """The state of an engine, None where there is no such environment."""

    def sleep_changes(self) -> AsyncIterator[EngineRef]:
        """Engines whose sleep may have begun or ended, without end."""


class SliceKeeper:
    """Writes the slices. namespace: that of the api. owns: is an engine this process's? `run` begins anew when that changes."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        engines: SleepingEngines,
        clock: Callable[[], float] = time.monotonic,
        owns: Callable[[EngineRef], bool] = lambda ref: True,
    ) -> None:
        self._owns = owns
        self._client = client
        self._namespace = namespace
        self._engines = engines
        self._clock = clock
        self._api = ApiAddresses()
        self._held: dict[EngineRef, ApiAddresses] = {}
        self._listed = asyncio.Event()
        self._made: dict[EngineRef, float] = {}
        self._due: asyncio.Queue[EngineRef] = asyncio.Queue()
        self._waiting: set[EngineRef] = set()

    async def lead_to_api(self, ref: EngineRef) -> None:
        """Lead requests for an engine that is about to sleep to the api, if the api is there. A failure is made good later."""
        if not self._api.port:
            return
        self._made[_key(ref)] = self._clock()
        try:
            await self._write(ref, self._api)
        except Halt as halt:
            self._failed(ref, halt)

    async def run(self) -> None:
        """Keep the slices, without end."""
        self._listed.clear()
        works = (self._follow_slices(), self._follow_api(), self._follow_engines(), *(self._work() for _ in range(AT_ONCE)))
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)

    async def settle(self, ref: EngineRef) -> bool:
        """Bring the slice of one engine to what it is to be. Return False if it is to be looked at again. Raises Halt."""
        state, held = self._engines.sleep_of(ref), self._held.get(ref)
        if state is not None and state.sleeps:
            await self._lead(ref, held)
            return True
        if held is None:
            self._made.pop(ref, None)
            return True
        if self._clock() - self._made.get(ref, -STAYS_S) < STAYS_S:
            return False
        if state is not None and state.runs and not await self._is_reached(ref):
            return False
        await self._remove(ref)
        return True

    async def _lead(self, ref: EngineRef, held: ApiAddresses | None) -> None:
        """Without an api the slice leads nowhere: an address that is given to another pod must not get requests."""
        if self._api.port:
            if held != self._api:
                await self._write(ref, self._api)
        elif held is not None and held.port:
            if held.addresses:
                await self._write(ref, replace(held, addresses=()))
        elif held is not None:
            await self._remove(ref)

    async def _write(self, ref: EngineRef, api: ApiAddresses) -> None:
        wanted = wanted_slice(ref, api)
        real = await ReadObjects(self._client).find(wanted)
        if real is not None:
            check_is_ours(real, wanted, ref)
            if real["addressType"] != api.family:  # is immutable
                await self._remove(ref)
                real = None
        if real is None or not covers(real, wanted):
            await apply_object(self._client, wanted, real, ref)
        self._held[_key(ref)] = api

    async def _remove(self, ref: EngineRef) -> None:
        real = await ReadObjects(self._client).find(slice_named(ref))
        if real is not None and belongs(real, ref):
            held = {"preconditions": {"uid": real["metadata"]["uid"]}}
            with suppress(NotFound):
                await self._client.request("DELETE", reference(real), body={"apiVersion": "v1", "kind": "DeleteOptions", **held})
        self._held.pop(_key(ref), None)

    async def _is_reached(self, ref: EngineRef) -> bool:
        path = path_of(API_VERSION, KIND, namespace_of(ref.id))
        found = await self._client.request("GET", path, query={"labelSelector": f"{SERVICE_LABEL}={NAME}"})
        return is_reached(found["items"])

    async def _follow_api(self) -> None:
        await self._listed.wait()  # else each would be asked for
        slices: dict[str, Document] = {}
        path = path_of(API_VERSION, KIND, self._namespace)
        async for seen in watch_labelled(self._client, path, f"{SERVICE_LABEL}={API_SERVICE}", _named):
            if isinstance(seen, Listed):
                slices = dict(seen.objects)
            elif seen.type == "DELETED":
                slices.pop(seen.object[0], None)
            else:
                slices.update((seen.object,))
            found = api_addresses(slices.values())
            if found != self._api:
                self._api = found
                log.info("api follows for engines that sleep", addresses=len(found.addresses))
                for ref in (*self._held, *self._engines.woken_by_requests()):
                    self._look(ref)

    async def _follow_slices(self) -> None:
        async for seen in watch_labelled(self._client, path_of(API_VERSION, KIND), f"{MANAGER_LABEL}={MANAGER}", _engine_slice):
            if isinstance(seen, Listed):
                before, self._held = self._held, {}
                for ref, leads in seen.objects:
                    self._take(ref, leads)
                self._listed.set()
                for ref in (*before, *self._held):
                    self._look(ref)
            elif (changed := seen.object.ref) is not None:
                if seen.type == "DELETED":
                    self._held.pop(changed, None)
                else:
                    self._take(*seen.object)
                self._look(changed)

    def _take(self, ref: EngineRef | None, leads: ApiAddresses | None) -> None:
        if ref is not None and leads is not None:
            self._held[ref] = self._api if leads == self._api else leads  # most are the same one

    async def _follow_engines(self) -> None:
        if self._api.port:  # known from an earlier run: no change of it will lead to a look at each of them
            for ref in self._engines.woken_by_requests():
                self._look(ref)
        async for ref in self._engines.sleep_changes():
            self._look(ref)

    def _look(self, ref: EngineRef) -> None:
        if self._owns(ref) and _key(ref) not in self._waiting:
            self._waiting.add(_key(ref))
            self._due.put_nowait(_key(ref))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            ref = await self._due.get()
            self._waiting.discard(ref)
            if not self._owns(ref):  # it was handed over since
                continue
            try:
                done = await self.settle(ref)
            except NotFound:  # its namespace is gone
                done = True
            except Halt as halt:
                self._failed(ref, halt)
                continue
            if not done:
                loop.call_later(AGAIN_S, self._look, ref)

    def _failed(self, ref: EngineRef, halt: Halt) -> None:
        log.warning("slice of an engine that sleeps not written", **ref.about, error=str(halt))
        asyncio.get_running_loop().call_later(RETRY_S, self._look, ref)


def _key(ref: EngineRef) -> EngineRef:
    """Return the reference as labels give it."""
    return EngineRef(ref.namespace, ref.name, ref.id)


def _named(document: Document) -> tuple[str, Document]:
    return document["metadata"]["name"], document


def _engine_slice(document: Document) -> EngineSlice:
    metadata = document["metadata"]
    ref = ref_of_labels(metadata.get("labels") or {})
    inside = ref is not None and metadata["namespace"] == namespace_of(ref.id)
    return EngineSlice(ref, led_to(ref, document) if ref is not None and inside else None)
