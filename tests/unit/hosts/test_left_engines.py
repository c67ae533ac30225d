"""Engines without an Environment are counted by namespace, name and id, for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from structlog.testing import capture_logs

from tenantry.adapters.metrics.registry import registry_of
from tenantry.hosts.fleet_metrics import LeftEnginesCollector
from tenantry.hosts.left_engines import LeftEngines
from tenantry.kinds.environment.orphaned import HeldEngine
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import API_VERSION
from tenantry.runtime.cache import Cache

ID = "0f7a3c1e-2b4d-4c6e-8f90-a1b2c3d4e5f6"
HELD = HeldEngine(ID, "tenant-acme", "dev", "namespace env-1")


def cache_with(spec: dict[str, Any], *, namespace: str = "tenant-acme", name: str = "dev", uid: str = "uid-1") -> Cache:
    cache = Cache(TYPES)
    metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "1", "generation": 1}
    cache.absorb({"apiVersion": API_VERSION, "kind": "Environment", "metadata": metadata, "spec": {"region": "home"} | spec})
    return cache


CASES = {
    "it has the engine's id": (cache_with({"id": ID}), 0),
    "its uid is the id": (cache_with({}, uid=ID), 0),
    "another was made under the name": (cache_with({}), 1),
    "another namespace has the name": (cache_with({"id": ID}, namespace="tenant-globex"), 1),
    "another name has the id": (cache_with({"id": ID}, name="prod"), 1),
    "there is none": (Cache(TYPES), 1),
}


@pytest.mark.parametrize(("cache", "count"), CASES.values(), ids=CASES)
async def test_an_engine_is_counted_unless_an_environment_has_its_place_and_its_id(cache: Cache, count: int) -> None:
    async def held() -> Sequence[HeldEngine]:
        return [HELD]

    left = LeftEngines(held, cache)
    with capture_logs() as logs:
        await left.look()
        await left.look()
    assert (
        f"tenantry_engines_without_environment {count}.0" in generate_latest(registry_of((LeftEnginesCollector(left),))).decode()
    )
    assert [each["engines"] for each in logs] == [count] * count, "a count that stays is not logged again"
    assert "acme" not in str(logs)
