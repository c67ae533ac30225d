"""The shard of each object: a tenant stays whole, what concerns all tenants is in one shard, and names spread evenly."""

from __future__ import annotations

from collections import Counter

import pytest

from tenantry.kinds.registry import KINDS
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tenantry.model.sharding.shards import PLATFORM, HeldShards, shard_of, shard_of_namespace, sharded_as
from tests.unit.kinds.factories import environment, identity, package, provider, tenant, user

COUNTS = (2, 3, 4, 16, 64)
STABLE = [5, 14, 31]
"""The shards of tenant-acme, tenant-globex and tenant-initech among 64."""


@pytest.mark.parametrize("count", (1, *COUNTS))
def test_the_shard_of_a_namespace_is_one_of_them(count: int) -> None:
    assert {shard_of_namespace(f"tenant-{number}", count) for number in range(2000)} == set(range(count))


def test_the_shard_of_a_namespace_stays_the_same_over_releases() -> None:
    """Two releases share the work during an upgrade: another shard for a name would be two operators for one object."""
    assert [shard_of_namespace(f"tenant-{name}", 64) for name in ("acme", "globex", "initech")] == STABLE


@pytest.mark.parametrize("count", COUNTS)
def test_tenants_spread_evenly_over_the_shards(count: int) -> None:
    found = Counter(shard_of_namespace(f"tenant-t{number:05}", count) for number in range(10_000))
    assert max(found.values()) <= 10_000 / count * 1.3
    assert min(found.values()) >= 10_000 / count * 0.7


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_a_namespace_are_in_one_shard_whatever_their_kind(kind: str) -> None:
    assert shard_of(Ref(kind, "tenant-acme", "one"), 16) == shard_of_namespace("tenant-acme", 16)
    for namespace in ("", SYSTEM_NAMESPACE):
        assert shard_of(Ref(kind, namespace, "one"), 16) == PLATFORM


@pytest.mark.parametrize(
    "target, namespace",
    [
        ({"kind": "App", "namespace": "tenant-acme", "name": "crm"}, "tenant-acme"),
        ({"kind": "Tenant", "name": "acme"}, ""),
        ({"kind": "Tenant", "namespace": "", "name": "acme"}, ""),
    ],
)
def test_an_operation_is_in_the_shard_of_its_target(target: dict[str, str], namespace: str) -> None:
    metadata = {"name": "op-1", "namespace": SYSTEM_NAMESPACE}
    assert sharded_as({"kind": "Operation", "metadata": metadata, "spec": {"target": target}}) == Ref(
        target["kind"], namespace, target["name"]
    )


def test_any_other_document_is_in_its_own() -> None:
    document = {"kind": "App", "metadata": {"name": "crm", "namespace": "tenant-acme"}, "spec": {}}
    assert sharded_as(document) == Ref("App", "tenant-acme", "crm")


@pytest.mark.parametrize("make", [tenant, user, environment, identity, provider, package])
def test_objects_that_claim_one_name_are_in_one_shard(make: object) -> None:
    """Claims are kept apart within a process. So a claim either names its namespace, or its kind is the platform's."""
    resource = make()  # type: ignore[operator]
    platforms = shard_of(resource.ref, 16) == PLATFORM
    assert resource.claims
    assert platforms or all(f" {resource.metadata.namespace} " in claim for claim in resource.claims)


def test_a_process_owns_the_objects_of_the_shards_that_it_holds() -> None:
    held = HeldShards()
    acme, platform = Ref("App", "tenant-acme", "crm"), Ref("Region", "", "eu")
    assert not held(acme)
    shard = shard_of(acme, 16)
    held.hold(16, {shard})
    assert held(acme)
    assert held(platform) == (shard == PLATFORM)
    held.hold(16, {PLATFORM})
    assert held(platform)


def test_the_number_of_shards_does_not_change_while_one_is_held() -> None:
    held = HeldShards()
    held.hold(4, {1})
    with pytest.raises(AssertionError):
        held.hold(8, {1})
    held.hold(4, ())
    held.hold(8, {1})
