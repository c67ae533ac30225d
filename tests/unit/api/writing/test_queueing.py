"""`Prefer: wait`: when the write is carried out, and its object shows it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenantry.api.writing.queueing import carried_out
from tenantry.model.resource import API_VERSION, SYSTEM_NAMESPACE
from tests.support.cached_objects import Objects

SOON_S = 0.05
UID = "00000000-0000-4000-8000-000000000001"
WRITTEN = {
    "apiVersion": API_VERSION,
    "kind": "Environment",
    "metadata": {"name": "dev", "namespace": "tenant-acme", "uid": UID, "generation": 2},
}


def shown(objects: Objects, generation: int, operation: str, status: str) -> None:
    """Put the Environment as a pass left it: the generation that it observed, and the Operation that it shows."""
    told = {"observedGeneration": generation, "lastOperation": {"id": operation, "status": status}}
    objects.put("Environment", "dev", {"region": "here"}, "tenant-acme", status=told, metadata={"uid": UID, "generation": 2})


def operation(objects: Objects, name: str, result: str) -> None:
    target = {"kind": "Environment", "namespace": "tenant-acme", "name": "dev", "uid": UID}
    spec = {"target": target, "action": "UPDATE_ENVIRONMENT", "cause": "2", "attempt": 1}
    status = {"status": "COMPLETED", "result": result}
    objects.put("Operation", name, spec, SYSTEM_NAMESPACE, status=status)


def ended(objects: Objects) -> bool:
    return asyncio.run(carried_out(objects.cache, "op", WRITTEN, SOON_S))


@pytest.mark.parametrize(
    ("result", "generation", "shows", "status", "waits"),
    [
        pytest.param("SUCCESS", 2, "op", "COMPLETED", False, id="the object shows the end"),
        pytest.param("SUCCESS", 2, "op", "RUNNING", True, id="an earlier pass showed that it runs"),
        pytest.param("SUCCESS", 2, "op", "QUEUED", True, id="an earlier pass showed that it waits"),
        pytest.param("SUCCESS", 1, "before", "COMPLETED", True, id="the write was not seen yet"),
        pytest.param("SUCCESS", 2, "later", "RUNNING", False, id="a later change began since"),
        pytest.param("FAILURE", 1, "before", "COMPLETED", False, id="a failure changes nothing"),
    ],
)
def test_a_write_is_carried_out_once_its_object_shows_it(
    result: str, generation: int, shows: str, status: str, waits: bool
) -> None:
    objects = Objects()
    operation(objects, "op", result)
    shown(objects, generation, shows, status)
    assert ended(objects) is not waits


def test_the_wait_ends_with_the_status_that_shows_the_end() -> None:
    objects = Objects()
    operation(objects, "op", "SUCCESS")
    shown(objects, 2, "op", "RUNNING")

    async def wait() -> Any:
        waiting = asyncio.create_task(carried_out(objects.cache, "op", WRITTEN, 60))
        await asyncio.sleep(0)
        assert not waiting.done()
        shown(objects, 2, "op", "COMPLETED")
        return await waiting

    assert asyncio.run(wait())
