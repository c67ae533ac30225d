"""The API server and etcd are killed, ended, frozen, or out of space: all that was acknowledged comes about.

The core runs in this process on a real API server; its engines are folders, so that only the outage is tried.
"""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.bootstrap.embedded import Platform
from tenantry.hosts.standalone import Standalone
from tenantry.kinds.registry import FOLLOWED
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref, held_of, ref_of
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound
from tests.campaigns.tried import Tried
from tests.cluster.control_plane import Cluster, ControlPlane
from tests.cluster.fixtures import client_of, install, own_plane
from tests.contract.stores import OnKubernetes
from tests.crash.campaign import URL
from tests.crash.watched_platform import CountingPassPorts, document, environment
from tests.support.patience import DEADLINE_S
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
FROZEN_S = 3.0
SETTLES_S = 60.0
RESYNC_S = 3600.0
API, ETCD = "kube-apiserver", "etcd"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane that may be killed."""
    with own_plane(tmp_path_factory.mktemp("plane")) as cluster:
        asyncio.run(install(cluster))
        yield cluster


def _killed(plane: ControlPlane, *names: str) -> None:
    for name in names:
        process = plane.running.pop(name)
        process.kill()
        process.wait(DEADLINE_S)
    plane.start()


def _stopped(plane: ControlPlane, *names: str) -> None:
    plane.stop(*names)  # by SIGTERM, and by SIGKILL when it still has watches after 10 s
    plane.start()


def _frozen(plane: ControlPlane, *names: str) -> Callable[[], None]:
    for name in names:
        plane.running[name].send_signal(signal.SIGSTOP)

    def thaw() -> None:
        for name in names:
            plane.running[name].send_signal(signal.SIGCONT)

    return thaw


def _alarm(plane: ControlPlane, action: str) -> None:
    """Raise or disarm the alarm of an etcd whose database has reached its quota: it refuses all writes until it is disarmed."""
    body = json.dumps({"action": action, "memberID": "0", "alarm": "NOSPACE"}).encode()
    with urllib.request.urlopen(f"{plane._etcd}/v3/maintenance/alarm", body, timeout=10) as answer:
        assert answer.status == 200


async def killed(plane: ControlPlane, *names: str) -> None:
    await asyncio.to_thread(_killed, plane, *names)


async def stopped(plane: ControlPlane, *names: str) -> None:
    await asyncio.to_thread(_stopped, plane, *names)


async def frozen(plane: ControlPlane, *names: str) -> None:
    thaw = _frozen(plane, *names)
    await asyncio.sleep(FROZEN_S)
    thaw()


async def out_of_space(plane: ControlPlane, *names: str) -> None:
    await asyncio.to_thread(_alarm, plane, "ACTIVATE")
    await asyncio.sleep(FROZEN_S)
    await asyncio.to_thread(_alarm, plane, "DEACTIVATE")


async def until(holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Wait for a condition; an outage takes a while."""
    await eventually(holds, within=SETTLES_S, shows=lambda: f"not {otherwise}")


Outage = Callable[..., Awaitable[None]]
BOTH = (API, ETCD)
OUTAGES: list[tuple[Outage, tuple[str, ...], str]] = [
    *((how, what, moment) for how in (killed, frozen) for what in ((API,), (ETCD,), BOTH) for moment in ("creating", "deleting")),
    *((stopped, what, moment) for what in ((API,), (ETCD,)) for moment in ("creating", "deleting")),
    (out_of_space, (ETCD,), "creating"),
]


@dataclass
class World:
    """A platform on the API server, and another client that declares. made: engines by id."""

    platform: Platform
    store: Any
    plane: ControlPlane

    async def acknowledged(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Ask again until it is acknowledged."""

        async def done() -> bool:
            try:
                await work()
            except (AlreadyExists, NotFound):
                return True
            except Halt:
                return False
            return True

        await until(done, "acknowledged")

    async def create(self, wanted: Document) -> None:
        await self.acknowledged(lambda: self.store.create(wanted))

    async def delete(self, ref: Ref) -> None:
        async def work() -> None:
            await self.store.delete(held_of(await self.store.get(ref))._replace(version=""))

        await self.acknowledged(work)

    async def ready(self, ref: Ref) -> bool:
        try:
            there = await self.store.get(ref)
        except Halt:
            return False
        ready = {each["type"]: each["status"] for each in there.get("status", {}).get("conditions", ())}
        return ready.get("Ready") == "True" and there["status"]["observedGeneration"] == there["metadata"]["generation"]

    async def gone(self, ref: Ref) -> bool:
        try:
            await self.store.get(ref)
        except NotFound:
            return True
        except Halt:
            return False
        return False


class Counts(dict[str, int]):
    """Engines that were made, by id."""

    def __missing__(self, key: str) -> int:
        return 0


@pytest.fixture
async def world(plane: Cluster, tmp_path: Path) -> AsyncIterator[tuple[World, Counts]]:
    assert plane.control_plane is not None
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(client_of(plane))
        both = OnKubernetes(KubernetesStore(client), KubernetesFeed(client))
        both.inside = lambda namespace: []  # type: ignore[attr-defined]
        platform = await Platform.open(tmp_path / "state", URL, both)  # type: ignore[arg-type]
        made = Counts()
        platform.runtime._cycle._ports = CountingPassPorts(platform.ports, made)  # type: ignore[arg-type]
        platform.host = Standalone(both, platform.state.cache, platform.runtime, FOLLOWED, RESYNC_S)
        with suppress(AlreadyExists):  # on one machine the store makes it
            await both.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}})
        await platform.host.start()
        stack.push_async_callback(platform.host.stop)
        yield World(platform, both, plane.control_plane), made


@pytest.mark.parametrize(("how", "what", "moment"), OUTAGES, ids=lambda value: getattr(value, "__name__", str(value)))
async def test_what_was_acknowledged_comes_about_after_an_outage(
    world: tuple[World, Counts], how: Outage, what: tuple[str, ...], moment: str, tried: Tried
) -> None:
    one, made = world
    name = f"{how.__name__.replace('_', '-')[:6]}-{len(what)}{what[0][-1]}-{moment[:3]}"
    namespace = f"tenant-{name}"
    await one.create(document("Region", "eu"))
    await one.create(document("Tenant", name))
    await until(lambda: one.ready(Ref("Tenant", "", name)), "Ready: the tenant")
    before = [environment(name, f"b{number}") for number in range(3)]
    for each in before:
        await one.create(each)
    for each in before:
        await until(lambda: one.ready(ref_of(each)), "Ready")  # noqa: B023
    after = [environment(name, f"a{number}") for number in range(3)]
    outage = asyncio.ensure_future(how(one.plane, *what))
    if moment == "deleting":
        for each in before[:2]:
            await one.delete(ref_of(each))
    for each in after:
        await one.create(each)
    await outage
    kept = [*after, *(before[2:] if moment == "deleting" else before)]
    for each in kept:
        await until(lambda: one.ready(ref_of(each)), f"{ref_of(each)} is Ready")  # noqa: B023
    if moment == "deleting":
        for each in before[:2]:
            await until(lambda: one.gone(ref_of(each)), f"{ref_of(each)} is gone")  # noqa: B023
    there = [each for each in (await one.store.list("Environment"))[0] if each["metadata"]["namespace"] == namespace]
    assert {each["metadata"]["name"] for each in there} == {each["metadata"]["name"] for each in kept}
    assert {made[each["metadata"]["uid"]] for each in there} == {1}
    tried()
    for each in there:
        await one.delete(ref_of(each))
    for each in there:
        await until(lambda: one.gone(ref_of(each)), "gone")  # noqa: B023
