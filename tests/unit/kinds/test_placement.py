"""Placement of engines: in a pool, in a pod of their own, or refused with the field and the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tenantry.kinds.environment.decide import decide
from tenantry.kinds.environment.placement import Placed, RegionPlacement, placed
from tenantry.kinds.environment.seen import Observed, SeenRegion, SeenTenant
from tenantry.kinds.environment.spec import Environment
from tenantry.model.changes import DeployEngine
from tenantry.model.decision import Warned
from tenantry.model.facts import EngineFacts
from tenantry.model.resource import RESTORING
from tests.unit.kinds.factories import NOW, PRESENT, Outcome, environment, outcome, running_environment, table, uid_of

BOTH = RegionPlacement("", (("first", "pool-1"), ("second", "pool-2")), offered=True)
NONE = RegionPlacement("", (), offered=True)
POOLED, DEDICATED = RegionPlacement("Pooled", BOTH.pools, True), RegionPlacement("Dedicated", BOTH.pools, True)
LOCAL = RegionPlacement("", BOTH.pools, offered=False)
DATABASE = {"secretRef": {"name": "s", "key": "k"}}
ITS_VOLUME = {RESTORING: "e@1@kept-1"}


SECOND_ON_SERVER = replace(BOTH, servers=frozenset({"pool-2"}))
GOT_A_SERVER = replace(SECOND_ON_SERVER, pools=(("first", "pool-2"),), left=(("first", "pool-1"),))
"""The pool `first` of before has no server, and still holds engines."""


class Case(NamedTuple):
    """The inputs of a placement."""

    declared: Environment
    there: EngineFacts | None
    region: RegionPlacement


def engine(pool: str) -> EngineFacts:
    return EngineFacts("e", "engine-dev", "RUNNING", "http://dev", "", "", pool=pool)


def wants(**spec: Any) -> Environment:
    return environment(spec={"engine": spec})


def had(**spec: Any) -> Environment:
    """One that was Ready before there were pools."""
    return running_environment(spec={"engine": spec})


def was_in(pool: str) -> Environment:
    return running_environment(status={"engine": {"id": "e", "name": "engine-dev", "pool": pool}})


@table(
    {
        "in the first pool by default": (Case(wants(), None, BOTH), "pool-1"),
        "in the pool that is named": (Case(wants(pool="second"), None, BOTH), "pool-2"),
        "in a pool where that is asked for": (Case(wants(placement="Pooled"), None, BOTH), "pool-1"),
        "in a pool where it is small": (Case(wants(size="small"), None, BOTH), "pool-1"),
        "in a pod of its own where that is asked for": (Case(wants(placement="Dedicated"), None, BOTH), ""),
        "in a pod of its own where the region has no pool": (Case(wants(), None, NONE), ""),
        "in a pod of its own where it is larger": (Case(wants(size="large"), None, BOTH), ""),
        "in a pod of its own where it has a database": (
            Case(wants(database=DATABASE), None, BOTH),
            "",
        ),
        "in a pod of its own where it has a volume's size": (Case(wants(storage="5Gi"), None, BOTH), ""),
        "in a pod of its own where it has a version": (Case(wants(version="1.2.0"), None, BOTH), ""),
        "in a pod of its own where the region wants that": (Case(wants(), None, DEDICATED), ""),
        "in a pool while a backup is restored": (Case(environment(annotations={RESTORING: "e@1"}), None, BOTH), "pool-1"),
        "in a pod of its own with the volume that it had": (Case(environment(annotations=ITS_VOLUME), None, POOLED), ""),
        "where it is, after pools were declared": (Case(had(), engine(""), BOTH), ""),
        "where it is, when the region wants pools": (Case(had(), engine(""), POOLED), ""),
        "where it is, when the region wants pods": (Case(was_in("pool-1"), engine("pool-1"), DEDICATED), "pool-1"),
        "where it is, when its pool is not declared any more": (Case(was_in("pool-0"), engine("pool-0"), BOTH), "pool-0"),
        "where it was, when its pool lost it": (Case(was_in("pool-2"), None, BOTH), "pool-2"),
        "where it was, when its pod is gone": (Case(had(), None, BOTH), ""),
        "where a crash left it": (Case(wants(), engine("pool-2"), BOTH), "pool-2"),
        "in a pool on a server": (Case(wants(pool="second"), None, SECOND_ON_SERVER), "pool-2"),
        "where it is, when its pool got a server": (Case(had(pool="first"), engine("pool-1"), GOT_A_SERVER), "pool-1"),
        "in the process of the platform": (Case(wants(), None, LOCAL), ""),
        "in the process of the platform, whatever is declared": (Case(wants(placement="Dedicated"), None, LOCAL), ""),
    }
)
def test_an_engine_is_placed(seen: Case, expected: str) -> None:
    assert placed(*seen) == Placed(expected)


@table(
    {
        "a pool that the region does not have": (Case(wants(pool="third"), None, BOTH), ("PoolNotFound", "first, second")),
        "a pool in a region without any": (Case(wants(placement="Pooled"), None, NONE), ("PoolNotFound", "has no pool")),
        "a pod in a region of pools": (Case(wants(placement="Dedicated"), None, POOLED), ("PlacementNotAllowed", "Pooled")),
        "a pool in a region of pods": (Case(wants(pool="first"), None, DEDICATED), ("PlacementNotAllowed", "Dedicated")),
        "a large engine in a region of pools": (Case(wants(size="large"), None, POOLED), ("PoolLacks", "spec.engine.size")),
        "a large one in a pool": (
            Case(wants(size="large", placement="Pooled"), None, BOTH),
            ("PoolLacks", "spec.engine.size"),
        ),
        "a version in a pool": (Case(wants(version="1.2.0", pool="first"), None, BOTH), ("PoolLacks", "spec.engine.version")),
        "a move to a pool that the region does not have": (
            Case(had(pool="third"), engine("pool-1"), BOTH),
            ("PoolNotFound", "first, second"),
        ),
        "a move into a pool in a region of pods": (
            Case(had(placement="Pooled"), engine(""), DEDICATED),
            ("PlacementNotAllowed", "Dedicated"),
        ),
        "a move of a large engine": (Case(had(size="large", pool="first"), engine(""), BOTH), ("PoolLacks", "spec.engine.size")),
        "a volume for one in a pool": (
            Case(had(storage="5Gi"), engine("pool-1"), BOTH),
            ("PoolLacks", "spec.engine.storage"),
        ),
    }
)
def test_a_refusal_names_the_field_and_the_way_out(seen: Case, expected: tuple[str, str]) -> None:
    refusal, (reason, told) = placed(*seen).refusal, expected
    assert refusal is not None
    assert (refusal.reason, told in refusal.message) == (reason, True), refusal.message


@table(
    {
        "into a pool": (Case(had(placement="Pooled"), engine(""), BOTH), "pool-1"),
        "into a pool by its name": (Case(had(pool="second"), engine(""), BOTH), "pool-2"),
        "to another pool": (Case(had(pool="second"), engine("pool-1"), BOTH), "pool-2"),
        "to a pod of its own": (Case(had(placement="Dedicated"), engine("pool-1"), BOTH), ""),
        "to a pod of its own, with its size": (Case(had(placement="Dedicated", size="large"), engine("pool-1"), BOTH), ""),
        "out of a pool that is not declared any more": (Case(had(pool="first"), engine("pool-0"), BOTH), "pool-1"),
        "with a volume that it had, once it runs": (
            Case(environment(spec={"engine": {"placement": "Pooled"}}, annotations=ITS_VOLUME), None, BOTH),
            "pool-1",
        ),
    }
)
def test_an_engine_moves_to_another_place_that_is_declared(seen: Case, expected: str) -> None:
    found = placed(*seen)
    assert (found.moves_to, found.refusal) == (expected, None)
    assert found.pool != expected


@table(
    {
        "no place is declared": (Case(had(), engine("pool-2"), BOTH), None),
        "any pool is declared": (Case(had(placement="Pooled"), engine("pool-2"), BOTH), None),
        "its pool is declared": (Case(had(pool="second"), engine("pool-2"), BOTH), None),
        "its pool left the region": (Case(had(pool="old"), engine("pool-0"), replace(BOTH, left=(("old", "pool-0"),))), None),
        "a pod of its own is declared": (Case(had(placement="Dedicated"), engine(""), BOTH), None),
        "it is in the process of the platform": (Case(had(pool="second"), engine(""), LOCAL), None),
    }
)
def test_an_engine_stays_where_it_is_declared(seen: Case, expected: None) -> None:
    found = placed(*seen)
    assert (found.moves_to, found.refusal) == (expected, None)


def observed(declared: Environment, there: EngineFacts | None = None) -> Observed:
    acme = SeenTenant("acme", uid_of("Tenant//acme"), "acme", deleting=False)
    region = SeenRegion("Kubernetes", allowed=True, placement=BOTH)
    return Observed(declared, acme, region, (), there, PRESENT, "http://dev")


def placed_on(provider: str, **spec: Any) -> Observed:
    region = SeenRegion(provider, allowed=True, placement=BOTH if provider == "Kubernetes" else LOCAL)
    return replace(observed(wants(**spec)), region=region)


def test_a_new_environment_is_deployed_into_its_pool() -> None:
    (change,) = decide(observed(wants()), NOW).changes
    assert isinstance(change, DeployEngine)
    assert (change.spec.pool, change.spec.capacity) == ("pool-1", 0)


def test_the_status_binds_an_environment_to_its_pool() -> None:
    status = decide(observed(wants(), engine("pool-1")), NOW).status
    assert status.engine is not None
    assert status.engine.pool == "pool-1"
    assert "pool=pool-1" in was_in("pool-1").index_keys()


def test_a_refused_placement_changes_nothing() -> None:
    assert outcome(decide(observed(wants(pool="third")), NOW)) == Outcome("Stalled PoolNotFound", (), "CREATE_ENVIRONMENT")


def test_data_that_a_pool_lost_is_not_covered_up_by_an_empty_engine() -> None:
    decision = decide(observed(was_in("pool-2")), NOW)
    assert decision.verdict.reason == "DataMissing"
    assert decision.changes == ()
    assert decision.status.engine is not None
    assert decision.status.engine.pool == "pool-2"


@table(
    {
        "a pool, on one machine": (placed_on("Local", pool="first"), "spec.engine.pool"),
        "a pod of its own, on one machine": (placed_on("Local", placement="Dedicated"), "spec.engine.placement"),
        "any pool, on one machine": (placed_on("Local", placement="Pooled"), ""),
        "no place, on one machine": (placed_on("Local"), ""),
        "a pool, on a cluster": (placed_on("Kubernetes", pool="first"), ""),
    }
)
def test_a_declared_place_that_has_no_effect_is_a_warning(seen: Observed, expected: str) -> None:
    told = f"{expected}: the engines of this host run in one process; leave the field out"
    assert decide(seen, NOW).warning == (Warned("PlacementNotUsed", told) if expected else None)


@pytest.mark.parametrize(
    ("pool", "policy", "expected"),
    [("second", "Delete", ["UndeployEngine"]), ("first", "Delete", []), ("second", "Retain", [])],
    ids=["on a server", "on a volume", "what is kept"],
)
def test_a_deletion_drops_the_database_of_an_engine_that_never_came(pool: str, policy: str, expected: list[str]) -> None:
    gone = environment(spec={"engine": {"pool": pool}, "deletionPolicy": policy}, deleting=True)
    region = SeenRegion("Kubernetes", allowed=True, placement=SECOND_ON_SERVER)
    changes = decide(replace(observed(gone), region=region), NOW).changes
    assert [type(each).__name__ for each in changes] == expected
