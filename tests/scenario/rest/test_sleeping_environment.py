"""REST of an environment whose engine sleeps: what is answered, what is refused, and what wakes it.

The environment is suspended, and its status is written as the operator of a cluster leaves it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenantry.model.resource import WAKE_REQUESTED, Ref, held_of
from tests.scenario.rest_world import World, world_in
from tests.support.published_packages import FAX, package

ADMIN = "acme-admin"
pytestmark = pytest.mark.slow


class Sleeping:
    """A tenant's environment whose engine sleeps. id: the environment's."""

    def __init__(self, world: World, id_: str, ref: Ref) -> None:
        self.world, self.id, self.ref = world, id_, ref


@pytest.fixture
async def sleeping(tmp_path: Path) -> AsyncIterator[Sleeping]:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        id_ = (await world.environment("acme", "dev"))["environment"]["id"]
        store = world.platform.state.writing
        (entry,) = world.platform.state.cache.resources("Environment")
        document = await store.get(entry.ref)
        document = await store.replace({**document, "spec": {**document["spec"], "suspend": True}}, held_of(document).version)
        engine = {**document["status"]["engine"], "status": "SLEEPING", "sleepingSince": "2026-11-28T20:00:00Z"}
        await store.set_status(held_of(document), {**document["status"], "engine": engine})
        yield Sleeping(world, id_, entry.ref)


async def test_it_is_ready_and_says_that_its_engine_sleeps(sleeping: Sleeping) -> None:
    body = (await sleeping.world(ADMIN, "GET", f"/environments/{sleeping.id}")).json()
    assert (body["status"], body["engine"]["status"]) == ("READY", "SLEEPING")


async def test_waking_it_is_asked_for_once_and_recorded(sleeping: Sleeping) -> None:
    world, path = sleeping.world, f"/environments/{sleeping.id}/wake"
    planned = await world(ADMIN, "POST", f"{path}?dryRun=true")
    assert planned.status_code == 200, planned.text
    woken = await world(ADMIN, "POST", path)
    assert woken.status_code == 202, woken.text
    document = await world.platform.state.writing.get(sleeping.ref)
    asked = document["metadata"]["annotations"][WAKE_REQUESTED]
    operation = (await world(ADMIN, "GET", f"/operations/{woken.json()['operation_id']}")).json()
    assert (operation["actionType"], operation["createdBy"], asked != "") == ("WAKE_ENVIRONMENT", ADMIN, True)
    assert (await world("acme-viewer", "POST", path)).status_code == 403


async def test_what_needs_the_engine_at_once_is_answered_503_with_the_reason(sleeping: Sleeping) -> None:
    path = f"/engines/{sleeping.id}/api/v1/admin/apps/publish"
    refused = await sleeping.world(ADMIN, "POST", path, **package("1.0.0", FAX))
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1"), refused.text
    assert "/docs/reasons/#sleeping" in refused.headers["Link"]
    assert "tenantry wake tenant-acme/dev" in refused.json()["error"]


async def test_what_is_declared_is_still_read(sleeping: Sleeping) -> None:
    for path in ("apps", "identities", "idps/external"):
        assert (await sleeping.world(ADMIN, "GET", f"/engines/{sleeping.id}/api/v1/admin/{path}")).status_code == 200
