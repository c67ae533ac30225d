"""Engines as the operator sees them: by watches of what they are made of, without a question to the API server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.kinds.environment.ownership import PlaceProof
from tenantry.model.verdicts import Halt, Stalled
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import until
from tests.support.deployer_kit import Kit, kit_of, make

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


class Counting(Client):
    """Keeps what was asked."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(from_kubeconfig(cluster.kubeconfig))
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        self.asked.append(f"{method} {path}")
        return await super().request(method, path, **body)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Counting]:
    if not cluster.controllers:
        pytest.skip("there is no kube-controller-manager to make pods and empty namespaces")
    client = Counting(cluster)
    yield client
    await client.close()


@pytest.fixture
async def kit(client: Counting) -> AsyncIterator[Kit]:
    """Its deployer follows what engines are made of."""
    kit = await kit_of(client)

    async def follow() -> None:
        async for _ in kit.deployer.changes():
            pass

    following = asyncio.create_task(follow())
    await asyncio.wait_for(kit.deployer.followed(), 30)
    yield kit
    following.cancel()


async def as_wanted(kit: Kit) -> bool:
    return (await kit.engine()).spec == kit.spec


async def drifted(kit: Kit) -> bool:
    return (await kit.engine()).spec is None


async def gone(kit: Kit) -> bool:
    return await kit.deployer.engine(kit.ref) is None


async def test_what_was_just_deployed_is_seen_at_once_and_nothing_is_asked_for_it(kit: Kit, client: Counting) -> None:
    await kit.deploy()
    client.asked.clear()
    facts = await kit.engine()
    assert (facts.spec, facts.status) == (kit.spec, "PENDING")
    await kit.become_ready()
    client.asked.clear()
    assert (await kit.engine()).status == "RUNNING"
    assert client.asked == []


async def test_a_new_engine_costs_one_write_an_object_and_one_look_for_another(kit: Kit, client: Counting) -> None:
    assert await kit.deployer.engine(kit.ref) is None
    client.asked.clear()
    await kit.deploy()
    reads = [asked for asked in client.asked if asked.startswith("GET")]
    assert reads == [f"GET /api/v1/namespaces/{kit.ref.namespace}/secrets/dev-admin"]
    assert len(client.asked) == len(reads) + 9


DRIFT = {
    "a service that leads elsewhere": ("Service", {"spec": {"selector": {"app": "evil"}}}),
    "foreign keys": ("ConfigMap", {"data": {"jwks.json": "{}"}}),
    "another password": ("Secret", {"data": {"password": base64.b64encode(b"guess").decode()}}),
    "an open namespace": ("Namespace", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
    "an engine that was stopped": ("StatefulSet", {"spec": {"replicas": 0}}),
}


@pytest.mark.parametrize(("kind", "change"), DRIFT.values(), ids=DRIFT)
async def test_drift_is_told_by_the_watch_and_corrected(kit: Kit, kind: str, change: dict[str, Any]) -> None:
    await kit.deploy()
    assert await as_wanted(kit)
    await kit.patch(kind, change)
    await until(lambda: drifted(kit), "the drift is not seen")
    await kit.deploy()
    assert await as_wanted(kit)


@pytest.mark.parametrize("label", ["tenantry.dev/environment", "tenantry.dev/namespace", "app.kubernetes.io/managed-by"])
async def test_a_label_of_the_namespace_that_is_taken_off_is_told_and_put_back(kit: Kit, label: str) -> None:
    await kit.deploy()
    kit.declared.proven = PlaceProof(uid=(await kit.get("Namespace", kit.namespace))["metadata"]["uid"])
    assert await as_wanted(kit)
    await kit.patch("Namespace", {"metadata": {"labels": {label: None}}}, kit.namespace)
    await until(lambda: drifted(kit), "the drift is not seen")
    await kit.deploy()
    assert label in (await kit.get("Namespace", kit.namespace))["metadata"]["labels"]
    await until(lambda: as_wanted(kit), "it is not seen as it is wanted")
    await kit.patch("Namespace", {"metadata": {"labels": {label: None}}}, kit.namespace)
    await kit.undeploy()
    await until(lambda: gone(kit), "it is still seen")


async def test_what_was_deleted_is_missed_and_made_again(kit: Kit) -> None:
    await kit.deploy()
    await kit.delete("NetworkPolicy")
    await until(lambda: drifted(kit), "it is not missed")
    await kit.deploy()
    assert await as_wanted(kit)


async def test_an_engine_that_a_deployer_before_made_is_not_overlooked(kit: Kit, client: Counting) -> None:
    before = await kit_of(client)
    await before.deploy()
    assert await kit.deployer.engine(before.ref) is not None


async def test_an_engine_that_is_gone_is_seen_to_be_gone(kit: Kit) -> None:
    await kit.deploy()
    await kit.undeploy()
    await until(lambda: gone(kit), "it is still seen")


async def test_a_foreign_namespace_of_the_engines_name_is_left_alone(kit: Kit, client: Counting) -> None:
    await make(client, "Namespace", kit.namespace)
    assert await kit.deployer.engine(kit.ref) is None
    with pytest.raises(Halt) as refused:
        await kit.deploy()
    assert isinstance(refused.value.verdict, Stalled)
    assert refused.value.verdict.reason == "EngineNamespaceTaken"
    assert await kit.names("Secret") == []
