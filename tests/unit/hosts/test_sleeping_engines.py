"""The engines that requests wake, as the keeper of their slices sees them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenantry.adapters.kubernetes.waking.slice_keeper import SleepingEngine
from tenantry.hosts.declared_objects import DeclaredObjects
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Ref
from tests.support.cached_objects import Objects

SINCE = "2026-11-28T20:00:00Z"
ASLEEP = {"status": "SLEEPING", "sleepingSince": SINCE}


def declared(
    engine: dict[str, Any] | None, wake: str = "OnRequest", region: str = "home", **metadata: Any
) -> tuple[Objects, EngineRef]:
    objects = Objects()
    objects.put("Region", "home", {})
    objects.put("Region", "away", {"provider": "Kubernetes", "kubernetes": {"kubeconfigSecretRef": {"name": "k", "key": "k"}}})
    put(objects, engine, wake, region, **metadata)
    found = objects.cache.resource(Ref("Environment", "tenant-acme", "dev"))
    assert found is not None
    return objects, EngineRef("tenant-acme", "dev", found.id)


def put(objects: Objects, engine: dict[str, Any] | None, wake: str = "OnRequest", region: str = "home", **metadata: Any) -> None:
    spec = {"region": region, "hibernation": {"after": "30m", "wake": wake}}
    objects.put("Environment", "dev", spec, "tenant-acme", status={"engine": engine} if engine else {}, metadata=metadata)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"engine": ASLEEP}, SleepingEngine(sleeps=True, runs=False)),
        ({"engine": ASLEEP | {"status": "PENDING"}}, SleepingEngine(sleeps=True, runs=False)),
        ({"engine": {"status": "RUNNING"}}, SleepingEngine(sleeps=False, runs=True)),
        ({"engine": {"status": "FAILED"}}, SleepingEngine(sleeps=False, runs=False)),
        ({"engine": None}, SleepingEngine(sleeps=False, runs=False)),
        ({"engine": ASLEEP, "wake": "Manual"}, SleepingEngine(sleeps=False, runs=False)),
        ({"engine": ASLEEP, "region": "away"}, SleepingEngine(sleeps=False, runs=False)),
        ({"engine": ASLEEP | {"pool": "pool-1"}}, SleepingEngine(sleeps=False, runs=False)),
        ({"engine": ASLEEP, "deletionTimestamp": "2026-11-29T10:00:00Z"}, None),
    ],
    ids=[
        "it sleeps", "it is being woken", "it runs", "it fails", "there is none", "people wake it", "in another cluster",
        "in a pool", "it is being deleted",
    ],
)  # fmt: skip
def test_how_an_engine_is_to_be_reached(given: dict[str, Any], expected: SleepingEngine | None) -> None:
    objects, ref = declared(**given)
    assert DeclaredObjects(objects.cache).sleep_of(ref) == expected


def test_an_environment_of_another_id_has_no_such_engine() -> None:
    objects, ref = declared(ASLEEP)
    assert DeclaredObjects(objects.cache).sleep_of(EngineRef(ref.namespace, ref.name, "another")) is None


def test_only_engines_that_requests_wake_are_looked_at() -> None:
    for wake, count in (("OnRequest", 1), ("Manual", 0)):
        objects, ref = declared(ASLEEP, wake)
        assert list(DeclaredObjects(objects.cache).woken_by_requests()) == [ref] * count


async def test_each_change_of_such_an_environment_is_told_and_its_end_too() -> None:
    objects, ref = declared(ASLEEP)
    changes = DeclaredObjects(objects.cache).sleep_changes()
    told = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)  # it listens
    put(objects, {"status": "RUNNING"})
    assert await told == ref
    put(objects, {"status": "RUNNING"}, "Manual")
    assert await anext(changes) == ref
    put(objects, {"status": "FAILED"}, "Manual")  # no request wakes it
    put(objects, ASLEEP)
    assert await anext(changes) == ref
    objects.cache.remove(objects.cache.document(Ref("Environment", "tenant-acme", "dev")) or {})
    assert await anext(changes) == ref
    await changes.aclose()  # type: ignore[attr-defined]
