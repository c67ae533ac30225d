"""Removed environments come back from a page of the console, for a SUPERUSER, with id and rows."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scenario.console.console_world import FORM, ConsoleWorld, console_world, csrf_of
from tests.scenario.rest_world import declare
from tests.support.published_packages import package

LIST = "/console/removed"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with console_world(tmp_path) as one:
        await one.rest.tenant("acme")
        await one.rest.platform.converged()
        spec = {"region": "here", "displayName": "DEV", "deletionPolicy": "Snapshot"}
        await declare(one.rest.platform, "Environment", "dev", spec, "tenant-acme")
        await one.rest.platform.converged()
        yield one


async def removed(world: ConsoleWorld) -> str:
    """The id of an environment that was deleted."""
    id_ = str((await world.rest("acme-admin", "GET", "/environments")).json()[0]["id"])
    path = f"/engines/{id_}/api/v1/admin/apps/publish"
    assert (await world.rest("acme-admin", "POST", path, **package("1.0.0"))).status_code == 200
    gone = await world.rest("acme-admin", "DELETE", f"/environments/{id_}", headers={"Prefer": "wait=60"})
    assert gone.status_code in (200, 202), gone.text
    await world.rest.platform.converged()
    return id_


async def test_a_removed_environment_comes_back_with_its_id(world: ConsoleWorld) -> None:
    browser, id_ = await world("root"), await removed(world)
    assert f'href="{LIST}"' in (await browser.get("/console/environments")).text
    listed = await browser.get(LIST)
    assert re.findall(rf'href="({LIST}/[^"]+)"', listed.text) == [f"{LIST}/{id_}"]
    before = world.rest.platform.state.store.version
    page = await browser.get(f"{LIST}/{id_}")
    assert "+ Environment/tenant-acme/dev" in page.text
    assert world.rest.platform.state.store.version == before
    done = await browser.post(f"{LIST}/{id_}", data={"csrf": csrf_of(page.text)}, headers=FORM)
    assert done.status_code == 303
    await world.rest.platform.converged()
    assert "DEV" in (await browser.get(done.headers["location"])).text
    apps = (await world.rest("acme-admin", "GET", f"/engines/{id_}/api/v1/admin/apps")).json()["data"]
    assert [one["version"] for one in apps] == ["1.0.0"]
    assert [one["id"] for one in (await world.rest("acme-admin", "GET", "/environments")).json()] == [id_]
    assert "is there again" in (await browser.get(LIST)).text
    again = await browser.post(f"{LIST}/{id_}", data={"csrf": csrf_of(page.text)}, headers=FORM)
    assert (again.status_code, "has the id" in again.text) == (400, True)


async def test_only_a_superuser_sees_what_was_removed_and_a_path_is_no_id(world: ConsoleWorld) -> None:
    id_ = await removed(world)
    for user in ("acme-admin", "acme-viewer"):
        browser = await world(user)
        csrf = csrf_of((await browser.get("/console/")).text)
        assert "Removed environments" not in (await browser.get("/console/environments")).text
        for path in (LIST, f"{LIST}/{id_}", f"{LIST}/none"):
            assert (await browser.get(path)).status_code == 403
        assert (await browser.post(f"{LIST}/{id_}", data={"csrf": csrf}, headers=FORM)).status_code == 403
    browser = await world("root")
    for path in ("none", "%2Fetc%2Fpasswd", "..%2F..%2Fstate.db"):
        assert (await browser.get(f"{LIST}/{path}")).status_code == 404
