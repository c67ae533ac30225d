"""Decisions about a Region."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenantry.kinds.environment.observe import observe as observe_environment
from tenantry.kinds.environment.placement import placed
from tenantry.kinds.region.decide import Observed, decide
from tenantry.kinds.region.observe import observe
from tenantry.kinds.region.pools import (
    DEFAULT_POOL,
    SeenPool,
    most_replicas_of,
    pool_id,
    pool_refs,
    server_of,
    with_default_pool,
)
from tenantry.kinds.region.spec import Region
from tenantry.model.changes import DeployPool
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec
from tenantry.model.resource import Ref, SecretKeyRef
from tests.unit.kinds.factories import (
    DELETED,
    NOW,
    Outcome,
    Surroundings,
    environment,
    outcome,
    region,
    running_environment,
    table,
    telling,
    tenant,
    uid_of,
    world,
)


@table(
    {
        "is there": (Observed(region(), 0, "Local"), Outcome("Ready")),
        "is in use": (Observed(region(), 3, "Local"), Outcome("Ready")),
        "goes when nobody uses it": (Observed(region(deleting=True), 0, "Local"), Outcome("Gone")),
        "stays while environments use it": (Observed(region(deleting=True), 3, "Local"), Outcome("Waiting InUse")),
    }
)
def test_a_region(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "Host is what the host runs engines on": (Observed(region(), 0, "Kubernetes"), "Kubernetes"),
        "Local is as declared": (Observed(region(spec={"provider": "Local"}), 0, "Kubernetes"), "Local"),
        "Kubernetes is as declared": (Observed(region(spec={"provider": "Kubernetes"}), 0, "Local"), "Kubernetes"),
    }
)
def test_the_provider(seen: Observed, expected: str) -> None:
    assert decide(seen, NOW).status.provider == expected


def test_it_tells_how_many_environments_use_it() -> None:
    assert decide(Observed(region(), 3, "Local"), NOW).status.environments == 3


def test_a_blocked_deletion_tells_by_what_since_when_and_what_resolves_it() -> None:
    deletion = decide(
        Observed(region(deleting=True), 3, "Local", users=(Ref("Environment", "tenant-acme", "dev"),)), NOW
    ).status.deletion
    assert deletion is not None
    (blocker,) = deletion.blockers
    assert (blocker.object, blocker.reason, blocker.since) == ("Environment/tenant-acme/dev", "InUse", DELETED)
    assert blocker.resolve == "delete it, if nobody needs it: `tenantry delete Environment/tenant-acme/dev`"


def test_what_blocked_it_is_not_told_any_longer_once_it_is_gone() -> None:
    blocked = decide(Observed(region(deleting=True), 1, "Local"), NOW).status
    later = region(deleting=True).model_copy(update={"status": blocked})
    assert decide(Observed(later, 0, "Local"), NOW).status.deletion is None


async def test_it_counts_the_environments_that_name_it() -> None:
    there = world(environment("dev"), environment("live"), environment("far", spec={"region": "us"}))
    assert (await observe(region("eu"), there)).environments == 2


async def test_it_asks_the_host_what_engines_run_on() -> None:
    assert (await observe(region(), world(around=Surroundings(provider="Kubernetes")))).host_provider == "Kubernetes"


CLOSED = region(spec={"tenants": ["acme", "umbra"]})
FIRST = [{"name": "acme", "uid": "first"}]
BOUND, TAKEN_OUT, OPENED = (telling(each, tenants=FIRST) for each in (CLOSED, region(spec={"tenants": ["umbra"]}), region()))


@table(
    {
        "means nobody while nobody has the name": ((CLOSED, {}), {}),
        "means who first has it": ((CLOSED, {"acme": "first"}), {"acme": "first"}),
        "means the same while nobody has it": ((BOUND, {}), {"acme": "first"}),
        "means the same when another has it": ((BOUND, {"acme": "second", "umbra": "u"}), {"acme": "first", "umbra": "u"}),
        "means nobody once it is taken out": (
            (TAKEN_OUT, {"acme": "second"}),
            {},
        ),
        "means nobody where all may come": (
            (OPENED, {"acme": "second"}),
            {},
        ),
    }
)
def test_a_name_of_a_tenant_that_may_come(seen: tuple[Region, dict[str, str]], expected: dict[str, str]) -> None:
    decision = decide(Observed(seen[0], 0, "Local", seen[1]), NOW)
    assert {each.name: each.uid for each in decision.status.tenants} == expected


@table(
    {
        "all, where none is named": ((region(), "acme", "any"), True),
        "nobody who is not named": ((CLOSED, "globex", "any"), False),
        "who is named and bound": ((BOUND, "acme", "first"), True),
        "who is named and not seen yet": ((BOUND, "umbra", "any"), True),
        "not a later one of the name": ((BOUND, "acme", "second"), False),
    }
)
def test_a_region_is_open_to(seen: tuple[Region, str, str], expected: bool) -> None:
    assert seen[0].allows(seen[1], seen[2]) is expected


def test_it_says_which_name_is_another_tenants_by_now() -> None:
    verdict = decide(Observed(BOUND, 0, "Local", {"acme": "second"}), NOW).verdict
    assert "acme may not use it" in verdict.message
    assert decide(Observed(BOUND, 0, "Local", {"acme": "first"}), NOW).verdict.message == ""


async def test_it_looks_at_the_tenants_that_it_names() -> None:
    assert (await observe(CLOSED, world(tenant(), tenant("globex")))).tenants == {"acme": tenant().metadata.uid}


# Pools

SMALL = {"name": "small", "enginesPerReplica": 2, "size": "medium", "storage": {"size": "5Gi"}}
POOL = EngineRef("", "eu", pool_id(uid_of("Region//eu"), "small"), slug="small")
POOL_SPEC = EngineSpec(POOL, "eu", "Kubernetes", size="medium", storage="5Gi", capacity=2)


def pooled(*pools: dict[str, Any], window: dict[str, Any] | None = None, **given: Any) -> Region:
    rollout = {"rollout": {"window": window}} if window else {}
    return region("eu", spec={"engine": {"pools": list(pools), **rollout}} if pools else {}, **given)


def pool(status: str = "RUNNING", engines: int = 0, **differs: Any) -> SeenPool:
    facts = EngineFacts("n", "engine-small", status, "http://pool", "", "", **{"spec": POOL_SPEC, **differs})
    return SeenPool(POOL, facts, engines)


def with_pools(declared: Region, *pools: SeenPool, environments: int = 0) -> Observed:
    return Observed(declared, environments, "Kubernetes", pools=pools)


DEPLOY, REMOVE = "region eu: deploy pool small", "region eu: remove pool small"


@table(
    {
        "is made": (with_pools(pooled(SMALL), SeenPool(POOL)), Outcome("Waiting PoolStarting", (DEPLOY,))),
        "is waited for": (with_pools(pooled(SMALL), pool("PENDING")), Outcome("Waiting PoolStarting")),
        "does not start": (with_pools(pooled(SMALL), pool("FAILED")), Outcome("Waiting PoolFailed")),
        "runs": (with_pools(pooled(SMALL), pool()), Outcome("Ready")),
        "is put right": (with_pools(pooled(SMALL), pool(spec=None)), Outcome("Ready", (DEPLOY,))),
        "is brought to another release": (with_pools(pooled(SMALL), pool(next="2")), Outcome("Ready", (DEPLOY,))),
        "waits for the window with another release": (
            with_pools(pooled(SMALL, window={"start": f"{(NOW.hour + 2) % 24:02}:00", "hours": 1}), pool(next="2")),
            Outcome("Ready"),
        ),
        "is brought to its declaration": (
            with_pools(pooled({**SMALL, "size": "large"}), pool()),
            Outcome("Ready", (DEPLOY,)),
        ),
        "goes when it is not declared any more": (with_pools(pooled(), pool()), Outcome("Ready", (REMOVE,))),
        "stays while it holds engines": (with_pools(pooled(), pool(engines=1)), Outcome("Ready")),
        "goes with its region": (with_pools(pooled(SMALL, deleting=True), pool()), Outcome("Gone", (REMOVE,))),
        "stays with a region in use": (
            with_pools(pooled(SMALL, deleting=True), pool(engines=1), environments=1),
            Outcome("Waiting InUse"),
        ),
    }
)
def test_a_pool(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_the_status_shows_each_pool() -> None:
    (shown,) = decide(with_pools(pooled(SMALL), pool("PENDING", 1, message="no node")), NOW).status.pools
    assert (shown.name, shown.id, shown.status, shown.engines, shown.message) == ("small", POOL.id, "PENDING", 1, "no node")


def test_a_pool_that_is_kept_for_its_engines_is_named() -> None:
    verdict = decide(with_pools(pooled(), pool(engines=3)), NOW).verdict
    assert "small (3)" in verdict.message


ON_SERVER: dict[str, Any] = {**SMALL, "postgres": {"adminSecretRef": {"name": "pool-server", "key": "url"}}}
SERVER = SecretKeyRef(name="pool-server", key="url")
SERVED = EngineRef("", "eu", pool_id(uid_of("Region//eu"), "small", on_server=True), slug="small")


def test_a_pool_on_a_server_is_deployed_with_its_secret_and_shows_it() -> None:
    decision = decide(with_pools(pooled(ON_SERVER), SeenPool(SERVED)), NOW)
    (change,) = decision.changes
    assert isinstance(change, DeployPool)
    assert change.spec == replace(POOL_SPEC, ref=SERVED, database_secret="pool-server", database_key="url", replicas=2)
    assert [pool.admin_secret_ref for pool in decision.status.pools] == [SERVER]


@table(
    {
        "a number": ({"replicas": 3}, (3, 0, 0)),
        "no number": ({}, (2, 0, 0)),
        "a maximum": ({"maxReplicas": 5}, (2, 5, 70)),
        "both": ({"replicas": 1, "maxReplicas": 20}, (1, 20, 70)),
        "both alike": ({"replicas": 4, "maxReplicas": 4}, (4, 4, 70)),
        "a target": ({"maxReplicas": 5, "cpuTarget": 40}, (2, 5, 40)),
    }
)
def test_the_number_of_pods_of_a_pool_on_a_server(seen: dict[str, int], expected: tuple[int, int, int]) -> None:
    declared = pooled({**SMALL, "postgres": {**ON_SERVER["postgres"], **seen}})
    (change,) = decide(with_pools(declared, SeenPool(SERVED)), NOW).changes
    assert isinstance(change, DeployPool)
    assert (change.spec.replicas, change.spec.max_replicas, change.spec.cpu_target) == expected
    assert most_replicas_of(declared, SERVED.id) == max(expected[:2])


def test_a_pool_on_a_volume_has_one_pod_and_so_has_one_that_is_no_longer_declared() -> None:
    assert (most_replicas_of(pooled(SMALL), POOL.id), most_replicas_of(pooled(), SERVED.id)) == (1, 1)


def test_a_pool_that_gets_a_server_is_another_pool_and_the_old_one_goes_once_it_is_empty() -> None:
    before = pooled(SMALL, status={"pools": [{"name": "small", "id": POOL.id, "engines": 1}]})
    after = before.model_copy(update={"spec": pooled(ON_SERVER).spec})
    assert pool_refs(after) == (POOL, SERVED)
    seen = with_pools(after, pool(engines=1), SeenPool(SERVED))
    assert [(type(each), each.spec.ref.id) for each in decide(seen, NOW).changes if isinstance(each, DeployPool)] == [
        (DeployPool, SERVED.id)
    ]
    assert outcome(decide(with_pools(after, pool(), pool_at(SERVED)), NOW)).wants == (REMOVE,)


def pool_at(ref: EngineRef) -> SeenPool:
    spec = replace(POOL_SPEC, ref=ref, database_secret="pool-server", database_key="url", replicas=2)
    return SeenPool(ref, replace(pool().facts or EngineFacts("", "", "", "", "", ""), spec=spec), 0)


def test_the_server_of_a_pool_is_known_until_the_pool_is_gone() -> None:
    declared = pooled(ON_SERVER)
    assert server_of(declared, SERVED.id) == SERVER
    assert server_of(declared, POOL.id) is None
    kept = {"name": "small", "id": SERVED.id, "adminSecretRef": {"name": "pool-server", "key": "url"}}
    assert server_of(pooled(status={"pools": [kept]}), SERVED.id) == SERVER


def test_a_region_that_is_made_again_has_other_pools() -> None:
    assert pool_id("uid-1", "small") != pool_id("uid-2", "small")


@table(
    {
        "by default": (region("eu"), True),
        "not if it declares pools": (pooled(SMALL), False),
        "not if it places engines Dedicated": (region("eu", spec={"engine": {"placement": "Dedicated"}}), False),
        "not on another cluster": (
            region("eu", spec={"provider": "Kubernetes", "kubernetes": {"kubeconfigSecretRef": {"name": "k", "key": "k"}}}),
            False,
        ),
    }
)
def test_a_region_has_the_default_pool(seen: Region, expected: bool) -> None:
    assert (with_default_pool(seen, offered="true").spec.engine.pools == [DEFAULT_POOL]) == expected
    assert with_default_pool(seen, offered="false") is seen


DEFAULT = {"name": "default", "id": pool_id(region("eu").metadata.uid, "default"), "status": "RUNNING", "engines": 0}


@table(
    {
        "a Region that nobody decided on yet": (region("eu"), True),
        "one whose first pass failed": (region("eu", status={"observedGeneration": 1}), True),
        "one that got it at first": (region("eu", status={"provider": "Kubernetes", "pools": [DEFAULT]}), True),
        "one of before": (region("eu", status={"provider": "Kubernetes"}), False),
        "one of before with another pool that still holds engines": (
            region("eu", status={"provider": "Kubernetes", "pools": [{**DEFAULT, "name": "small", "id": "pool-1"}]}),
            False,
        ),
    }
)
def test_new_regions_have_the_default_pool(seen: Region, expected: bool) -> None:
    assert (with_default_pool(seen, offered="new").spec.engine.pools == [DEFAULT_POOL]) == expected


async def test_a_new_region_keeps_the_default_pool_that_its_first_pass_gave_it() -> None:
    there = replace(world(region("eu"), around=Surroundings(provider="Kubernetes")), default_pool="new")
    status = decide(await observe(region("eu"), there), NOW).status
    again = region("eu").model_copy(update={"status": status})
    there = replace(world(again, around=Surroundings(provider="Kubernetes")), default_pool="new")
    assert [type(each).__name__ for each in decide(await observe(again, there), NOW).changes] == ["DeployPool"]


async def test_the_default_pool_is_made_and_takes_new_environments_only() -> None:
    around = Surroundings(provider="Kubernetes")
    dev, old = environment("dev"), running_environment("old")
    there = replace(world(region("eu"), tenant(), dev, old, around=around), default_pool="true")
    made = decide(await observe(region("eu"), there), NOW)
    (pool,) = made.status.pools
    assert (pool.name, [type(each).__name__ for each in made.changes]) == ("default", ["DeployPool"])
    seen = [await observe_environment(each, there) for each in (dev, old)]
    assert [placed(each.environment, each.engine, each.region.placement).pool for each in seen if each.region] == [pool.id, ""]
