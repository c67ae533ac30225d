"""A pool whose number of pods an autoscaler sets: the deployer leaves the number alone, and keeps the autoscaler."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest

from tenantry.adapters.kubernetes.engines.workload import Placement
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Ref
from tests.contract.deployers import Controllers, cluster
from tests.support.deployer_kit import BASE, Kit

POOL = EngineRef("", "home", "pool-0123456789ab", slug="server")
FIXED = EngineSpec(POOL, "home", "Kubernetes", capacity=300, database_secret="pool-server", database_key="url", replicas=2)
SCALED = replace(FIXED, max_replicas=6, cpu_target=70)
AUTOSCALER, WORKLOAD = "HorizontalPodAutoscaler", "StatefulSet"


async def pool() -> tuple[Controllers, Kit]:
    """A cluster with the Secret of a server, and a deployer that makes pools on it."""
    there = await cluster()
    kit = there.kit
    kit.ref = POOL
    metadata = {"name": "pool-server", "namespace": "tenantry-system", "labels": {"tenantry.dev/credential": "region"}}
    data = {"url": b64encode(b"postgresql://admin:secret@db.example.com/postgres").decode()}
    path = "/api/v1/namespaces/tenantry-system/secrets/pool-server"
    secret = there.api.put(path, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    kit.cached[Ref("Secret", "tenantry-system", "pool-server")] = secret
    return there, kit


async def running(spec: EngineSpec, scaled_to: int = 0) -> tuple[Controllers, Kit]:
    """A pool that runs. scaled_to: the number that its autoscaler has set."""
    there, kit = await pool()
    await kit.deploy(spec)
    await there.settle(POOL)
    if scaled_to:
        await kit.patch(WORKLOAD, {"spec": {"replicas": scaled_to}})
    return there, kit


async def count(kit: Kit) -> int:
    return int((await kit.get(WORKLOAD))["spec"]["replicas"])


def writes(there: Controllers) -> list[str]:
    """The kinds and methods of the writes since the last look."""
    asked, there.api.asked = there.api.asked, []
    return [f"{method} {path.split('/')[-2]}" for method, path in asked if method != "GET"]


async def test_a_new_pool_begins_with_the_fewest_pods_and_has_an_autoscaler() -> None:
    _, kit = await running(SCALED)
    assert await count(kit) == 2
    rules = (await kit.get(AUTOSCALER))["spec"]
    assert (rules["minReplicas"], rules["maxReplicas"]) == (2, 6)
    assert (await kit.engine()).spec == SCALED


async def test_the_number_that_an_autoscaler_sets_is_no_difference_and_nothing_is_written() -> None:
    there, kit = await running(SCALED, scaled_to=5)
    facts = await kit.engine()
    assert (facts.status, facts.spec, facts.altered) == ("RUNNING", SCALED, ())
    writes(there)
    await kit.deploy(SCALED)
    assert writes(there) == []


CHANGES: dict[str, tuple[EngineSpec, Placement]] = {
    "another size": (replace(SCALED, size="large"), BASE),
    "another release": (SCALED, replace(BASE, image="tenantry:1.3.0")),
    "another least number": (replace(SCALED, replicas=3), BASE),
    "another greatest number, even a lower one": (replace(SCALED, max_replicas=4), BASE),
}


@pytest.mark.parametrize(("spec", "base"), CHANGES.values(), ids=CHANGES)
async def test_what_is_rolled_out_keeps_the_present_number(spec: EngineSpec, base: Placement) -> None:
    there, kit = await running(SCALED, scaled_to=5)
    kit.deployer._base = base
    await kit.deploy(spec)
    assert await count(kit) == 5
    assert (await kit.engine()).spec == spec
    writes(there)
    await kit.deploy(spec)
    assert writes(there) == []


async def test_a_number_that_is_set_between_the_read_and_the_write_stays() -> None:
    there, kit = await running(SCALED, scaled_to=3)
    path = kit.path(WORKLOAD, "engine")
    numbers = iter((4, 5))

    def autoscaler(method: str, asked: str) -> None:
        number = next(numbers, None) if (method, asked) == ("GET", path) else None
        if number is not None:
            held = there.api.held[path]
            there.api._stored(path, {**held, "spec": {**held["spec"], "replicas": number}})

    there.api.after = autoscaler
    await kit.deploy(replace(SCALED, size="large"))
    assert await count(kit) == 5
    assert next(numbers, None) is None, "both came between"


async def test_a_foreign_value_in_the_pod_goes_and_the_number_stays() -> None:
    _, kit = await running(SCALED, scaled_to=4)
    await kit.patch(WORKLOAD, {"spec": {"template": {"spec": {"serviceAccountName": "foreign"}}}})
    assert (await kit.engine()).spec is None
    await kit.deploy(SCALED)
    assert (await kit.engine()).spec == SCALED
    assert await count(kit) == 4


async def test_a_pool_that_somebody_scaled_to_nothing_begins_again_for_an_autoscaler_would_not() -> None:
    _, kit = await running(SCALED)
    await kit.patch(WORKLOAD, {"spec": {"replicas": 0}})
    assert (await kit.engine()).altered == ("its StatefulSet was changed at spec.replicas",)
    await kit.deploy(SCALED)
    assert await count(kit) == 2


async def test_an_autoscaler_that_was_deleted_or_changed_comes_back() -> None:
    _, kit = await running(SCALED, scaled_to=4)
    await kit.delete(AUTOSCALER)
    assert (await kit.engine()).altered == ("its HorizontalPodAutoscaler does not exist",)
    await kit.deploy(SCALED)
    await kit.patch(AUTOSCALER, {"spec": {"maxReplicas": 50}})
    assert (await kit.engine()).altered == ("its HorizontalPodAutoscaler was changed at spec.maxReplicas",)
    await kit.deploy(SCALED)
    facts = await kit.engine()
    assert (facts.spec, facts.altered, await count(kit)) == (SCALED, (), 4)


async def test_a_maximum_that_is_declared_for_a_running_pool_keeps_its_pods() -> None:
    _, kit = await running(replace(FIXED, replicas=4))
    await kit.deploy(SCALED)
    assert await count(kit) == 4
    assert (await kit.engine()).spec == SCALED


async def test_without_its_maximum_a_pool_has_the_declared_number_and_no_autoscaler_that_would_undo_it() -> None:
    there, kit = await running(SCALED, scaled_to=5)
    writes(there)
    await kit.deploy(FIXED)
    assert await count(kit) == 2
    assert await kit.names(AUTOSCALER) == []
    done = writes(there)
    assert done.index("DELETE horizontalpodautoscalers") < done.index("PATCH statefulsets")
    facts = await kit.engine()
    assert (facts.spec, facts.altered) == (FIXED, ())


async def test_an_autoscaler_of_a_pool_with_a_declared_number_is_a_difference() -> None:
    _, kit = await running(SCALED)
    made = await kit.get(AUTOSCALER)
    await kit.deploy(FIXED)
    await kit.create(AUTOSCALER, metadata={"namespace": kit.namespace, "labels": made["metadata"]["labels"]}, spec=made["spec"])
    assert (await kit.engine()).altered == ("its HorizontalPodAutoscaler is still there",)


async def test_the_number_of_a_pool_without_a_maximum_is_put_back() -> None:
    _, kit = await running(FIXED)
    await kit.patch(WORKLOAD, {"spec": {"replicas": 3}})
    assert (await kit.engine()).altered == ("its StatefulSet was changed at spec.replicas",)
    await kit.deploy(FIXED)
    assert await count(kit) == 2
