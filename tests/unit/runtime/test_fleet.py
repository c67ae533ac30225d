"""The numbers of the fleet follow each change of the cache, and forget what is gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tenantry.adapters.metrics.registry import registry_of
from tenantry.hosts.fleet_metrics import FleetCollector
from tenantry.kinds.registry import KINDS, TYPES
from tenantry.model.resource import API_VERSION, Document
from tenantry.runtime.cache import Cache
from tenantry.runtime.fleet import Fleet

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EARLIER = "2026-03-01T11:50:00Z"
VERSIONS = count(1)
READY = [{"type": "Ready", "status": "True"}]
STALLED = [{"type": "Ready", "status": "False"}, {"type": "Stalled", "status": "True"}]
RECONCILING = [{"type": "Ready", "status": "False"}, {"type": "Reconciling", "status": "True"}]


class Clocked:
    """A fleet whose clocks stand still until they are moved."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cache = Cache(TYPES)
        self.fleet = self.follow()

    def follow(self) -> Fleet:
        return Fleet(self.cache, KINDS, time=lambda: self.seconds, now=lambda: NOW + timedelta(seconds=self.seconds))

    def states(self, kind: str) -> dict[tuple[str, str], int]:
        return {(state, by): number for of, state, by, number in self.fleet.states() if of == kind}


@pytest.fixture
def world() -> Clocked:
    return Clocked()


def declared(kind: str, name: str, *, generation: int = 1, deleted: str = "", **status: Any) -> Document:
    spec = {"Environment": {"region": "eu"}, "Source": {"url": "https://git.example/x.git"}, "Region": {}}[kind]
    metadata: dict[str, Any] = {"name": name, "uid": name, "generation": generation, "creationTimestamp": EARLIER}
    metadata["resourceVersion"] = str(next(VERSIONS))
    if kind != "Region":
        metadata["namespace"] = "tenant-acme"
    if deleted:
        metadata["deletionTimestamp"] = deleted
    written = {"observedGeneration": generation, **status} if status else {}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec, "status": written}


def operation(name: str, status: str, result: str = "PENDING", **told: Any) -> Document:
    target = {"kind": "Environment", "namespace": "tenant-acme", "name": "dev", "uid": "u"}
    metadata = {"name": name, "namespace": "tenantry-system", "uid": name, "creationTimestamp": EARLIER}
    return {
        "apiVersion": API_VERSION,
        "kind": "Operation",
        "metadata": metadata | {"resourceVersion": str(next(VERSIONS))},
        "spec": {"action": "CREATE_ENVIRONMENT", "target": target, "cause": "1"},
        "status": {"status": status, "result": result, **told},
    }


def test_each_object_counts_in_its_newest_state(world: Clocked) -> None:
    world.cache.absorb(declared("Environment", "dev"))
    assert world.states("Environment") == {("ready", ""): 0, ("working", ""): 1}
    failed = {"status": "COMPLETED", "id": "o", "by": "Operator"}
    world.cache.absorb(declared("Environment", "dev", conditions=STALLED, lastOperation=failed))
    assert world.states("Environment") == {("ready", ""): 0, ("needs-you", "Operator"): 1}
    world.cache.absorb(declared("Environment", "dev", conditions=STALLED))
    assert world.states("Environment") == {("ready", ""): 0, ("needs-you", "User"): 1}
    world.cache.absorb(declared("Environment", "dev", conditions=READY))
    assert world.states("Environment") == {("ready", ""): 1}


def test_lost_data_is_the_operators_affair_though_no_operation_failed(world: Clocked) -> None:
    told = [{"type": "Ready", "status": "False", "reason": "DataMissing"}, {"type": "Stalled", "status": "True"}]
    done = {"status": "COMPLETED", "id": "o", "by": ""}
    world.cache.absorb(declared("Environment", "dev", conditions=told, lastOperation=done))
    assert world.states("Environment") == {("ready", ""): 0, ("needs-you", "Operator"): 1}


def test_an_object_that_is_gone_counts_nowhere(world: Clocked) -> None:
    deleted = declared("Environment", "dev", deleted=EARLIER, engine={"status": "DELETING"}, conditions=RECONCILING)
    world.cache.absorb(deleted)
    assert (world.states("Environment")["deleting", ""], world.fleet.longest_deletion()) == (1, 600.0)
    assert world.fleet.engines() == {"DELETING": 1}
    world.cache.remove(deleted)
    assert world.states("Environment") == {("ready", ""): 0}
    assert (world.fleet.longest_deletion(), world.fleet.engines()) == (0.0, {})


def test_the_engines_of_a_pool_that_does_not_run_are_counted(world: Clocked) -> None:
    pools = [
        {"name": "a", "id": "1", "status": "FAILED", "engines": 3},
        {"name": "b", "id": "2", "status": "RUNNING", "engines": 5},
    ]
    empty = {"name": "c", "id": "3"}
    world.cache.absorb(declared("Region", "eu", conditions=READY, pools=[*pools, empty]))
    assert world.fleet.engines() == {"FAILED": 3}
    world.cache.absorb(declared("Region", "eu", conditions=READY, pools=[pools[1]]))
    assert world.fleet.engines() == {}


def test_the_time_to_ready_runs_from_the_sight_of_a_generation(world: Clocked) -> None:
    settled = world.fleet.settled["Environment"]
    world.cache.absorb(declared("Environment", "dev"))
    world.seconds = 4
    world.cache.absorb(declared("Environment", "dev", conditions=RECONCILING))
    world.seconds = 7
    world.cache.absorb(declared("Environment", "dev", conditions=READY))
    assert settled.sum == 7
    world.seconds = 10
    world.cache.absorb(declared("Environment", "dev", conditions=READY))
    assert (settled.sum, dict(settled.buckets())["+Inf"]) == (7, 1)
    behind = declared("Environment", "dev", generation=2, conditions=READY)
    world.cache.absorb({**behind, "status": {"observedGeneration": 1}})
    world.seconds = 12
    world.cache.absorb(declared("Environment", "dev", generation=2, conditions=READY))
    assert (settled.sum, dict(settled.buckets())["+Inf"]) == (9, 2)


def test_the_time_until_a_person_acts_is_not_the_platforms(world: Clocked) -> None:
    world.cache.absorb(declared("Environment", "dev"))
    world.cache.absorb(declared("Environment", "dev", conditions=STALLED))
    world.seconds = 9000
    world.cache.absorb(declared("Environment", "dev", conditions=READY))
    assert world.fleet.settled["Environment"].sum == 0


def test_an_operation_is_open_until_it_ends(world: Clocked) -> None:
    world.cache.absorb(operation("o", "RUNNING", startedOn=EARLIER))
    assert world.fleet.open_operations() == {"CREATE_ENVIRONMENT": (1, 600.0)}
    ended = operation("o", "COMPLETED", "SUCCESS", startedOn=EARLIER, endsOn="2026-03-01T11:51:00Z")
    world.cache.absorb(ended)
    assert world.fleet.open_operations() == {}
    assert world.fleet.operations["CREATE_ENVIRONMENT", "SUCCESS"].sum == 60
    # What had ended before the start was counted then.
    assert world.follow().operations["CREATE_ENVIRONMENT", "SUCCESS"].sum == 0
    world.cache.absorb(operation("other", "QUEUED"))
    world.cache.remove(operation("other", "QUEUED"))
    assert world.fleet.open_operations() == {}


def test_an_operation_that_is_recorded_at_its_end_counts_once(world: Clocked) -> None:
    times = {"startedOn": "2026-03-01T12:00:00Z", "endsOn": "2026-03-01T12:00:02Z"}
    for _ in range(2):
        world.cache.absorb(operation("o", "COMPLETED", "FAILURE", **times))
    counted = world.fleet.operations["CREATE_ENVIRONMENT", "FAILURE"]
    assert (counted.sum, dict(counted.buckets())["+Inf"]) == (2.0, 1)


def test_sources_and_drift(world: Clocked) -> None:
    kept = [{"object": "App/tenant-acme/a", "reason": "Approve"}]
    world.cache.absorb(declared("Source", "repo", conditions=READY, lastSync=EARLIER, kept=kept))
    drifted = [*READY, {"type": "Drifted", "status": "True"}]
    world.cache.absorb(declared("Environment", "dev", conditions=drifted))
    assert (world.fleet.oldest_sync(), world.fleet.held_back, world.fleet.drifted) == (600.0, 1, 1)
    suspended = [*READY, {"type": "Suspended", "status": "True"}]
    world.cache.absorb(declared("Source", "repo", conditions=suspended, lastSync=EARLIER))
    world.cache.absorb(declared("Environment", "dev", conditions=READY))
    assert (world.fleet.oldest_sync(), world.fleet.held_back, world.fleet.drifted) == (0.0, 0, 0)


def test_one_who_follows_later_knows_the_same(world: Clocked) -> None:
    world.cache.absorb(declared("Environment", "dev", conditions=STALLED, engine={"status": "FAILED"}))
    world.cache.absorb(declared("Source", "repo", deleted=EARLIER, conditions=READY, lastSync=EARLIER))
    world.cache.absorb(operation("o", "RUNNING", startedOn=EARLIER))
    assert list(samples(world.follow())) == list(samples(world.fleet))


def test_a_thousand_objects_make_as_many_series_as_one(world: Clocked) -> None:
    world.cache.absorb(declared("Environment", "dev", conditions=STALLED))
    one = len(list(samples(world.fleet)))
    for number in range(1000):
        world.cache.absorb(declared("Environment", f"dev-{number}", conditions=STALLED))
    assert len(list(samples(world.fleet))) == one


def samples(fleet: Fleet) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield what Prometheus would see of it."""
    told = generate_latest(registry_of((FleetCollector(fleet),))).decode()
    for family in text_string_to_metric_families(told):
        if family.name.startswith("tenantry_"):
            yield from ((sample.name, sample.labels, sample.value) for sample in family.samples)


def test_objects_that_are_reconciled_too_often_count_by_kind_while_they_say_so(world: Clocked) -> None:
    hot = [*READY, {"type": "Hot", "status": "True"}]
    world.cache.absorb(declared("Environment", "dev", conditions=hot))
    assert dict(world.fleet.hot_objects()) == dict.fromkeys(KINDS, 0) | {"Environment": 1}
    assert world.states("Environment") == {("ready", ""): 1}
    world.cache.absorb(declared("Environment", "dev", conditions=READY))
    assert set(dict(world.fleet.hot_objects()).values()) == {0}
