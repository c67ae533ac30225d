"""Requests that wake engines, on a real API server: its Service leads to the api while an engine sleeps, and then no longer."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.running import Kube, Operator, Platform, condition, engines, object_, operations, until
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
ALWAYS = {"schedule": [{"start": "00:00", "end": "00:00"}], "wake": "OnRequest"}
AT_ONCE = 50
PASSWORD = "correct horse"
SLICE = "engine-sleeps"


class World(NamedTuple):
    """A tenant's environment `dev`, whose engine sleeps. space: its namespace; activator: where the api takes its requests."""

    kube: Kube
    operator: Operator
    home: str
    space: str
    activator: str

    def until(self, holds: Any, what: str) -> None:
        until(holds, what, explained=self.operator.told)

    def led(self) -> list[str] | None:
        """The addresses to which the Service leads besides its pods, None where it has no slice for that."""
        slices = self.kube.get("endpointslices", namespace=self.space)
        found = next((each for each in slices if each["metadata"]["name"] == SLICE), None)
        if found is None:
            return None
        assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "engine"
        assert found["ports"] == [{"name": "http", "port": 8083, "protocol": "TCP"}]
        return [address for each in found["endpoints"] or () for address in each["addresses"]]

    def reason(self) -> str:
        return str(condition(self.kube.get("environment", "dev", self.home))["reason"])

    def wakes(self) -> int:
        return operations(self.kube, self.home, "dev").count("WAKE_ENVIRONMENT")

    def client(self, host: str = "") -> httpx.AsyncClient:
        headers = {"Host": host or f"engine.{self.space}.svc:8080"}
        return httpx.AsyncClient(base_url=self.activator, headers=headers, trust_env=False, timeout=90)


def slice_of(service: str, namespace: str, *addresses: str, port: str = "http") -> dict[str, Any]:
    """As the controller of slices writes it, which no test of this cluster has."""
    labels = {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{service}-played", "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [each], "conditions": {"ready": True}} for each in addresses],
        "ports": [{"name": port, "port": 8083 if port == "activator" else 8080, "protocol": "TCP"}],
    }


@pytest.fixture
def dev(platform: Platform, kube: Kube, home: str, tmp_path: Path) -> Iterator[World]:
    listen = f"127.0.0.1:{free_port()}"
    replica = platform.replica(tmp_path)
    kube.apply(slice_of("tenantry-api", NAMESPACE, "10.77.0.1", port="activator"))
    with platform.leader() as operator, replica.api(TENANTRY_CLUSTER__ACTIVATOR=listen):
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        declared = object_("Environment", "dev", home, region="home", deletionPolicy="Delete")
        labels = {"tenantry.dev/credential": "identity"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alice", "namespace": home, "labels": labels}}
        password = {"passwordSecretRef": {"name": "alice", "key": "password"}}
        kube.apply(
            declared,
            secret | {"data": {"password": base64.b64encode(PASSWORD.encode()).decode()}},
            object_("Identity", "alice", home, environment="dev", username="alice", roles=[], **password),
        )
        for what in ("environment/dev", "identity/alice"):
            kube.ready(what, home, within=300)
        (space,) = engines(kube, home)
        world = World(kube, operator, home, space, f"http://{listen}")
        assert world.led() is None
        kube.apply(declared | {"spec": declared["spec"] | {"hibernation": ALWAYS}})
        world.until(lambda: world.reason() == "Sleeping", "it sleeps")
        yield world
    kube("delete", "environments", "--all", "-n", home, "--wait=false")  # the operators of later tests see to it
    kube("delete", "endpointslice", "tenantry-api-played", "-n", NAMESPACE)


async def at_once(dev: World) -> list[int]:
    async with dev.client() as http:
        sign_in = http.post("/api/v1/auth/token", data={"username": "alice", "password": PASSWORD})
        others = (http.get("/readyz") for _ in range(AT_ONCE - 1))
        return [each.status_code for each in await asyncio.gather(sign_in, *others)]


async def code(dev: World, host: str) -> int:
    async with dev.client(host) as http:
        return (await http.get("/readyz")).status_code


def test_fifty_requests_at_once_wake_an_engine_once_and_each_is_answered_by_it(dev: World) -> None:
    assert dev.led() == ["10.77.0.1"]
    for host in ("tenantry-api.tenantry-system.svc:8080", "10.77.0.1:8083", f"engine.{dev.space}x.svc"):
        assert asyncio.run(code(dev, host)) == 404
    assert dev.wakes() == 0
    assert asyncio.run(at_once(dev)) == [200] * AT_ONCE, dev.operator.told()
    dev.until(lambda: dev.wakes() == 1, "it is recorded")
    (asked,) = (
        each for each in dev.kube.get("operations", namespace=NAMESPACE)
        if each["spec"]["action"] == "WAKE_ENVIRONMENT" and each["spec"]["target"].get("namespace") == dev.home
    )  # fmt: skip
    assert "a request" in str(asked), asked
    assert dev.led() == ["10.77.0.1"], "no slice of its own leads to its pod yet"
    dev.kube.apply(slice_of("engine", dev.space, "10.77.9.9"))
    dev.until(lambda: dev.led() is None, "it is reached by itself")
    assert asyncio.run(at_once(dev)) == [200] * AT_ONCE, "who still reaches the api is forwarded"
    assert dev.wakes() == 1


def test_the_slices_follow_the_pods_of_the_api_and_what_a_kill_left_is_made_good(dev: World, platform: Platform) -> None:
    dev.kube.apply(slice_of("tenantry-api", NAMESPACE, "10.77.0.2", "10.77.0.3", port="activator"))
    dev.until(lambda: dev.led() == ["10.77.0.2", "10.77.0.3"], "it follows")
    dev.kube.apply(slice_of("tenantry-api", NAMESPACE, "10.77.0.4", port="metrics"))
    dev.until(lambda: dev.led() == [], "pods of an older release get no requests")
    dev.operator.process.kill()
    dev.operator.process.wait()
    dev.kube("delete", "endpointslice", SLICE, "-n", dev.space)
    dev.kube.apply(slice_of("tenantry-api", NAMESPACE, "10.77.0.5", port="activator"))
    with platform.leader() as operator:
        again = dev._replace(operator=operator)
        again.until(lambda: again.led() == ["10.77.0.5"], "it is there again")
        manual = {**ALWAYS, "wake": "Manual"}
        again.kube.apply(object_("Environment", "dev", dev.home, region="home", deletionPolicy="Delete", hibernation=manual))
        again.until(lambda: again.led() is None, "requests wake it no longer")
        assert (again.reason(), again.wakes()) == ("Sleeping", 0)
        again.until(lambda: asyncio.run(code(again, "")) == 404, "the api does not know it any more")
