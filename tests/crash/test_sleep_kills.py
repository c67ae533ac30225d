"""A process is killed at each write of falling asleep and of waking, to the store and to the cluster: both converge.

The cycle, the deployer and the decisions are real. The API server, its controller and the engine's answer are played.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from tenantry.adapters.kubernetes.client.http import JSON, Client
from tenantry.adapters.kubernetes.engines.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engines.kept_volumes import KeptVolumes
from tenantry.adapters.kubernetes.engines.remote import Clusters
from tenantry.adapters.kubernetes.engines.workload import namespace_of
from tenantry.adapters.overlay.packages import NoFetches, NoLogs, PlannedSources
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.bootstrap.pass_ports import Ports
from tenantry.hosts.standalone import fill
from tenantry.kinds.admission import Admission
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import FOLLOWED, KINDS, TYPES
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import API_VERSION, WAKE_REQUESTED, Document, Ref, held_of
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.cycle import Cycle
from tenantry.runtime.reconcile.following import TrackedView
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.support.deployer_kit import BASE, JWKS, Declared
from tests.support.store_faults import Crash, Fault, FaultPoint, FaultyStore
from tests.unit.adapters.kubernetes.engines.fake_api import FakeApi
from tests.unit.kinds.factories import NOW

DEV = Ref("Environment", "tenant-acme", "dev")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
MOST_WRITES = 40
SLEPT, WOKE = "HIBERNATE_ENVIRONMENT", "WAKE_ENVIRONMENT"


class FaultyApi:
    """An API server at one of whose writes the process dies."""

    def __init__(self, api: FakeApi, point: FaultPoint) -> None:
        self._api, self._point = api, point

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None, content_type: str = JSON
    ) -> Document:
        fault = self._point.next() if method != "GET" else None
        if fault is Fault.CRASH_BEFORE:
            raise Crash(str(self._point))
        answer = await self._api.request(method, path, query=query, body=body, content_type=content_type)
        if fault is Fault.CRASH_AFTER:
            raise Crash(str(self._point))
        return answer


@dataclass
class Played:
    """The answers of engines."""

    platform: Platform

    async def unused(self, endpoint: EngineEndpoint) -> timedelta:
        return self.platform.unused


@dataclass
class Platform:
    """All that outlives a process: the store, the cluster, the time, and for how long nobody used the engine."""

    memory: MemoryStore = field(default_factory=lambda: MemoryStore(Admission()))
    api: FakeApi = field(default_factory=FakeApi)
    now: datetime = NOW
    unused: timedelta = timedelta()

    async def declare(self) -> None:
        """A tenant that is Ready, with an environment that sleeps after 30 minutes."""
        await self.memory.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-acme"}})
        await self.memory.create(_declared("Region", "home"))
        tenant = await self.memory.create(_declared("Tenant", "acme"))
        status = {"slug": "acme", "namespace": {"name": "tenant-acme", "uid": "u1"}, "observedGeneration": 1}
        await self.memory.set_status(held_of(tenant), status)
        await self.memory.create(_declared("Environment", "dev", region="home", hibernation={"after": "30m"}))

    def control(self) -> None:
        """Play the controller of StatefulSets and the node."""
        for path, held in [*self.api.held.items()]:
            if held["kind"] == "StatefulSet":
                replicas = held["spec"]["replicas"]
                self.api.held[path] = {**held, "status": {"readyReplicas": replicas, "updatedReplicas": replicas}}

    async def process(self, point: FaultPoint | None = None, passes: int = 6) -> bool:
        """Run passes over the environment in a new process, until it is at rest. Return False if it died."""
        point, cache = point or FaultPoint(), Cache(TYPES)
        for kind in FOLLOWED:
            await fill(self.memory, cache, kind)
        cycle = Cycle(KINDS, cache, self._ports(cache, point), lambda: self.now)
        for _ in range(passes):
            self.control()
            try:
                await cycle.run(DEV, TrackedView(cache))
            except Crash:
                return False
        return True

    def _ports(self, cache: Cache, point: FaultPoint) -> Ports:
        store = WritingStore(FaultyStore(self.memory, point), cache)
        client = cast(Client, FaultyApi(self.api, point))
        secrets = StoreSecrets(store, cache.document, b"key")
        kept = KeptVolumes(client, lambda ref: (), timedelta(days=30))
        none = cast(Any, None)
        return Ports(
            store=store,
            tenancy=lambda through: none,
            fingerprint_key=b"key",
            deployer=cast(Any, KubernetesDeployer(Clusters(client), Declared(), secrets, lambda: JWKS, BASE, kept)),
            engines=cast(Any, Played(self)),
            packages=none,
            logs=NoLogs(),
            fetcher=NoFetches(),
            sources=PlannedSources(),
        )

    async def document(self) -> Document:
        return await self.memory.get(DEV)

    async def told(self) -> tuple[str, str, int]:
        """The engine's status, the reason of Ready, and the replicas of its workload."""
        status = (await self.document())["status"]
        (reason,) = [each["reason"] for each in status["conditions"] if each["type"] == "Ready"]
        return status["engine"]["status"], reason, await self.replicas()

    async def replicas(self) -> int:
        id_ = (await self.document())["metadata"]["uid"]
        path = f"/apis/apps/v1/namespaces/{namespace_of(id_)}/statefulsets/engine"
        return int(self.api.held[path]["spec"]["replicas"])

    async def operations(self, action: str) -> list[tuple[str, str]]:
        found, _ = await self.memory.list(Operation.KIND)
        return [(each["status"]["status"], each["status"]["result"]) for each in found if each["spec"]["action"] == action]


def _declared(kind: str, name: str, **spec: Any) -> Document:
    where = {"namespace": "tenant-acme"} if kind == "Environment" else {}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, **where}, "spec": spec}


async def running() -> Platform:
    """A platform whose engine runs."""
    platform = Platform()
    await platform.declare()
    assert await platform.process()
    assert await platform.told() == ("RUNNING", "Succeeded", 1)
    return platform


async def asleep() -> Platform:
    platform = await running()
    platform.now, platform.unused = platform.now + HOUR, HOUR
    assert await platform.process()
    assert await platform.told() == ("SLEEPING", "Sleeping", 0)
    return platform


async def ask(platform: Platform) -> None:
    """Ask to wake the engine."""
    document = copy.deepcopy(dict(await platform.document()))
    document["metadata"]["annotations"] = {**document["metadata"].get("annotations", {}), WAKE_REQUESTED: "now"}
    await platform.memory.replace(document, held_of(document).version)
    platform.unused = timedelta()


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda fault: fault.name)
async def test_falling_asleep_converges_whenever_the_process_is_killed(fault: Fault) -> None:
    for at in range(1, MOST_WRITES):
        platform = await running()
        platform.now, platform.unused = platform.now + HOUR, HOUR
        survived = await platform.process(FaultPoint(at, fault))
        platform.now += MINUTE
        assert await platform.process()
        assert await platform.told() == ("SLEEPING", "Sleeping", 0), at
        assert await platform.operations(SLEPT) == [("COMPLETED", "SUCCESS")], at
        if survived:
            assert at > 3, "an Operation, the workload and the status are written"
            return
    raise AssertionError("it never came to rest")


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda fault: fault.name)
async def test_waking_converges_whenever_the_process_is_killed(fault: Fault) -> None:
    for at in range(1, MOST_WRITES):
        platform = await asleep()
        await ask(platform)
        survived = await platform.process(FaultPoint(at, fault))
        platform.now += MINUTE
        assert await platform.process()
        assert await platform.told() == ("RUNNING", "Succeeded", 1), at
        assert await platform.operations(WOKE) == [("COMPLETED", "SUCCESS")], at
        assert (await platform.document())["status"]["lastHandledWakeAt"] == "now"
        if survived:
            assert at > 3, "an Operation, the workload and the status are written"
            return
    raise AssertionError("it never came to rest")


async def test_at_rest_nothing_is_written_and_it_sleeps_again_once_nobody_uses_it() -> None:
    platform = await asleep()
    point = FaultPoint()
    assert await platform.process(point)
    assert point.writes == 0
    await ask(platform)
    assert await platform.process()
    for unused, told in ((timedelta(minutes=29), "RUNNING"), (timedelta(minutes=31), "SLEEPING")):
        platform.now, platform.unused = platform.now + HOUR, unused
        assert await platform.process()
        assert (await platform.told())[0] == told
    assert await platform.operations(SLEPT) == [("COMPLETED", "SUCCESS")] * 2
