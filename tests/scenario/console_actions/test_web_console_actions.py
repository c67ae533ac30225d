"""Actions of the console: a plan first, then exactly that plan, by the rights and refusals of REST."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.scenario.console.console_world import FORM, ConsoleWorld, world_of_acme
from tests.scenario.rest_world import declare


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with world_of_acme(tmp_path) as one:
        yield one


async def page_of(world: ConsoleWorld, user: str) -> str:
    found = (await world.rest(user, "GET", "/environments")).json()
    return f"/console/environments/{found[0]['id']}/delete"


def fields(page: httpx.Response) -> dict[str, str]:
    """The hidden fields of the form, none without a form."""
    if 'class="confirm"' not in page.text:
        return {}
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text.rpartition('class="confirm"')[2])
    return {name: html.unescape(value) for name, value in found}


async def test_a_deletion_shows_its_plan_and_wants_the_name(world: ConsoleWorld) -> None:
    browser, path = await world("acme-admin"), await page_of(world, "acme-admin")
    before = world.rest.platform.state.store.version
    page = await browser.get(path)
    planned = (
        await world.rest("acme-admin", "DELETE", path.replace("/console", "").rpartition("/")[0], params={"dryRun": "true"})
    ).json()
    assert fields(page)["plan"] == planned["digest"]
    assert fields(page)["lines"].splitlines() == planned["changes"]
    for name in ("", "de", "DEV"):
        refused = await browser.post(path, data=fields(page) | {"name": name}, headers=FORM)
        assert (refused.status_code, "nothing was changed" in refused.text) == (400, True)
    assert world.rest.platform.state.store.version == before
    name = re.findall(r"<code>([\w-]+)</code></label>", page.text)[0]
    done = await browser.post(path, data=fields(page) | {"name": name}, headers=FORM)
    assert done.status_code == 303
    shown = await browser.get(done.headers["location"])
    assert "DELETE_ENVIRONMENT" in shown.text


async def test_a_plan_that_moved_is_shown_anew_and_nothing_happens(world: ConsoleWorld) -> None:
    browser, path = await world("acme-admin"), await page_of(world, "acme-admin")
    page = await browser.get(path)
    name = re.findall(r"<code>([\w-]+)</code></label>", page.text)[0]
    spec = {"environment": name, "username": "late", "passwordSecretRef": {"name": "none"}}
    await declare(world.rest.platform, "Identity", "late", spec, "tenant-acme")
    moved = await browser.post(path, data=fields(page) | {"name": name}, headers=FORM)
    assert moved.status_code == 412
    assert "Changed since you looked" in moved.text
    assert fields(moved)["plan"] != fields(page)["plan"]
    assert (await world.rest("acme-admin", "GET", "/environments")).json()[0]["status"] != "DELETING"


async def test_who_may_only_read_sees_why_and_no_form(world: ConsoleWorld) -> None:
    browser, path = await world("acme-viewer"), await page_of(world, "acme-viewer")
    page = await browser.get(path)
    assert "may only read" in page.text
    assert fields(page) == {}
    csrf = re.findall(r'name="csrf" value="(\w+)"', page.text)[0]
    refused = await browser.post(path, data={"csrf": csrf, "name": "dev", "plan": "0" * 64}, headers=FORM)
    assert refused.status_code in (400, 403)
    assert (await world.rest("acme-admin", "GET", "/environments")).json()[0]["status"] != "DELETING"


async def test_actions_of_foreign_objects_equal_those_of_absent_ones(world: ConsoleWorld) -> None:
    await world.rest.tenant("globex")
    browser, path = await world("globex-admin"), await page_of(world, "acme-admin")
    id_ = path.split("/")[3]
    foreign, absent = await browser.get(path), await browser.get(path.replace(id_, "0f0f"))
    assert (foreign.status_code, foreign.text.replace(id_, "0f0f")) == (404, absent.text)
    assert (await browser.get("/console/environments/x/y")).status_code == 404
