"""The moves that `tenantry move` refuses, because they would not begin."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.cli.commands.objects.moving import check
from tenantry.cli.output.failing import Failure
from tenantry.kinds.region.pools import pool_id
from tenantry.model.resource import RESTORING, SOURCE, SOURCE_FILE

POOLS = [{"name": "small", "id": "pool-1", "engines": 1}, {"name": "full", "id": "pool-2", "engines": 2}]
OURS = {"apiVersion": "tenantry.dev/v1alpha1"}
HEAD = {**OURS, "kind": "Region", "metadata": {"name": "eu"}}
REGION = {
    **HEAD,
    "spec": {"engine": {"pools": [{"name": "small", "enginesPerReplica": 300}, {"name": "full", "enginesPerReplica": 2}]}},
    "status": {"pools": POOLS},
}
PLAIN = {**HEAD, "spec": {}, "status": {}}
GIVEN = {**HEAD, "spec": {}, "status": {"provider": "Kubernetes", "pools": [{"name": "default", "id": pool_id("", "default")}]}}
DEDICATED = {**REGION, "spec": {"engine": {**REGION["spec"]["engine"], "placement": "Dedicated"}}}  # type: ignore[index]
POOLED = {**REGION, "spec": {"engine": {**REGION["spec"]["engine"], "placement": "Pooled"}}}  # type: ignore[index]

SOURCED = {
    "name": "dev",
    "namespace": "tenant-acme",
    "labels": {SOURCE: "platform"},
    "annotations": {SOURCE_FILE: "dev.yaml:3"},
}


def dev(pool: str = "", engine: Any = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        **OURS,
        "kind": "Environment",
        "metadata": {"name": "dev", "namespace": "tenant-acme", "annotations": annotations or {}},
        "spec": {"region": "eu", **({"engine": engine} if engine else {}), **spec},
        "status": {"engine": {"pool": pool} if pool else {}},
    }


@pytest.mark.parametrize(
    "environment", [dev(), dev("pool-2"), dev("pool-2", {"pool": "full"})], ids=["a pod", "a pool", "a declared pool"]
)
def test_a_move_from_another_place_may_begin(environment: dict[str, Any]) -> None:
    assert check(environment, {"eu": REGION}, "small") == "small"


@pytest.mark.parametrize("environment", [dev("pool-1"), dev("pool-1", {"pool": "small"})], ids=["a pool", "a declared pool"])
def test_a_move_to_a_pod_of_its_own_may_begin(environment: dict[str, Any]) -> None:
    assert check(environment, {"eu": REGION}, "dedicated") == ""


def test_a_pool_may_be_named_dedicated() -> None:
    named = {**REGION, "spec": {"engine": {"pools": [{"name": "dedicated"}]}}, "status": {}}
    assert check(dev(), {"eu": named}, "dedicated") == "dedicated"


def test_a_move_into_the_pool_that_the_platform_gives_a_region_may_begin() -> None:
    check(dev(), {"eu": GIVEN}, "default")


def test_what_a_source_declares_is_moved_there() -> None:
    environment = {**dev(), "metadata": SOURCED}
    with pytest.raises(Failure) as refused:
        check(environment, {"eu": REGION}, "small")
    assert "is declared at dev.yaml:3: edit that file: spec.engine.placement: Pooled, spec.engine.pool: small" in str(
        refused.value
    )


@pytest.mark.parametrize(
    ("environment", "region", "to", "told"),
    [
        (dev(), REGION, "smal", "region eu has no pool smal: choose one of full, small"),
        ({**dev(), "metadata": SOURCED}, PLAIN, "small", "region eu has no pool small: it has none"),
        (dev(), PLAIN, "small", "region eu has no pool small: it has none"),
        (dev("pool-1"), REGION, "small", "the engine of environment/dev is in pool small already"),
        (dev(), REGION, "full", "pool full of region eu is full: it holds 2 engines"),
        (dev(), REGION, "dedicated", "the engine of environment/dev is in no pool"),
        (dev("pool-1"), POOLED, "dedicated", "'Dedicated' is not allowed: the region places engines Pooled"),
        ({**dev("pool-1"), "metadata": SOURCED}, REGION, "dedicated", "placement: Dedicated, and no spec.engine.pool"),
        (dev(), DEDICATED, "small", "spec.engine.placement: 'Pooled' is not allowed: the region places engines Dedicated"),
        (dev(engine={"size": "large"}), REGION, "small", "spec.engine.size: an engine in a pool has none of its own"),
        (dev(suspend=True), REGION, "small", "is suspended"),
        (dev(annotations={RESTORING: "e@1"}), REGION, "small", "is being restored"),
        (dev(engine={"external": {"url": "https://there"}}), REGION, "small", "has an external engine"),
    ],
)
def test_a_refusal_names_the_reason(environment: dict[str, Any], region: dict[str, Any], to: str, told: str) -> None:
    with pytest.raises(Failure) as refused:
        check(environment, {"eu": region}, to)
    assert told in str(refused.value)
