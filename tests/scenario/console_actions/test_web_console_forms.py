"""Forms of the console: what was typed stays, a wrong field is marked, a stale page shows what changed; the writes are REST's."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenario.console.console_world import FORM, ConsoleWorld, world_of_acme

NEW = "/console/environments/new"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with world_of_acme(tmp_path) as one:
        yield one


def fields(page: httpx.Response) -> dict[str, str]:
    """Return the content of the form of a page, without its buttons."""
    form = page.text.rpartition('class="fields"')[2]
    found = re.findall(r'<input [^>]*name="(\w+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found}


async def environments(world: ConsoleWorld) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await world.rest("acme-admin", "GET", "/environments")).json()
    return found


async def test_an_environment_is_made_by_the_plan_that_was_shown(world: ConsoleWorld) -> None:
    browser = await world("acme-admin")
    empty = await browser.get(NEW)
    typed = fields(empty) | {"name": "Stage <b>", "slug": "stage", "region": "here"}
    planned = await browser.post(NEW, data=typed | {"act": "plan"}, headers=FORM)
    assert (planned.status_code, len(await environments(world))) == (200, 1)
    body = {"name": "Stage <b>", "slug": "stage", "region": "here"}
    rest = (await world.rest("acme-admin", "POST", "/environments", json=body, params={"dryRun": "true"})).json()
    assert fields(planned)["plan"] == rest["digest"]
    assert fields(planned)["lines"].splitlines() == rest["changes"]
    made = await browser.post(NEW, data=fields(planned) | {"act": "do"}, headers=FORM)
    assert made.status_code == 303
    assert "Stage &lt;b&gt;" in (await browser.get(made.headers["location"])).text
    assert {one["slug"] for one in await environments(world)} == {"dev", "stage"}


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"name": "X", "slug": "dev", "region": "here"}, "slug"),
        ({"name": "X", "slug": "Not A Slug", "region": "here"}, "slug"),
        ({"name": "X", "slug": "x", "region": "nowhere"}, "region"),
        ({"name": "", "slug": "x", "region": "here"}, "name"),
        ({"name": "X", "slug": "", "region": "here"}, "slug"),
    ],
    ids=str,
)
async def test_a_refused_form_marks_the_field_and_keeps_what_was_typed(
    world: ConsoleWorld, typed: dict[str, str], field: str
) -> None:
    browser = await world("acme-admin")
    for act in ("plan", "do"):
        sent = fields(await browser.get(NEW)) | typed | {"act": act, "plan": "0" * 64 if act == "do" else ""}
        refused = await browser.post(NEW, data=sent, headers=FORM)
        assert refused.status_code == 400
        assert re.findall(r'<input id="(\w+)" [^>]*aria-invalid="true" aria-describedby="\w+-problem"', refused.text) == [field]
        assert {name: fields(refused)[name] for name in typed} == typed
    assert len(await environments(world)) == 1


async def test_a_superuser_names_the_tenant(world: ConsoleWorld) -> None:
    browser = await world("root")
    for tenant, problem in (("", "is required"), ("nobody", "no such tenant"), ("acme", "")):
        typed = fields(await browser.get(NEW)) | {"tenantId": tenant, "name": "X", "slug": "x", "region": "here", "act": "plan"}
        answer = await browser.post(NEW, data=typed, headers=FORM)
        assert (answer.status_code, problem in answer.text) == (400 if problem else 200, True)
        assert fields(answer)["tenantId"] == tenant


async def test_an_edit_from_a_stale_page_shows_what_changed_and_the_new_plan(world: ConsoleWorld) -> None:
    browser, held = await world("acme-admin"), (await environments(world))[0]
    path = f"/console/environments/{held['id']}/edit"
    opened = await browser.get(path)
    assert fields(opened)["name"] == "DEV"
    typed = fields(opened) | {"name": "Mine"}
    await world.rest("acme-admin", "PUT", f"/environments/{held['id']}", json={"name": "Theirs"})
    await world.rest.platform.converged()
    stale = await browser.post(path, data=typed | {"act": "plan"}, headers=FORM)
    assert stale.status_code == 412
    assert re.search(r"name\s*<span[^>]*>was</span>\s*DEV\s*<span[^>]*>is now</span>\s*Theirs", stale.text)
    assert (fields(stale)["name"], fields(stale)["was_name"]) == ("Mine", "Theirs")
    assert (await environments(world))[0]["name"] == "Theirs"
    done = await browser.post(path, data=fields(stale) | {"act": "do"}, headers=FORM)
    assert (done.status_code, (await environments(world))[0]["name"]) == (303, "Mine")


async def test_a_tenant_is_made_and_changed_by_a_superuser_only(world: ConsoleWorld) -> None:
    browser = await world("root")
    for user in ("acme-admin", "acme-viewer"):
        assert (await (await world(user)).get("/console/tenants/new")).status_code == 403
    assert (await (await world("acme-viewer")).get(NEW)).status_code == 403
    typed = fields(await browser.get("/console/tenants/new")) | {"name": "Globex", "slug": "globex"}
    planned = await browser.post("/console/tenants/new", data=typed, headers=FORM)
    made = await browser.post("/console/tenants/new", data=fields(planned) | {"act": "do"}, headers=FORM)
    assert made.status_code == 303
    await world.rest.platform.converged()
    edit = made.headers["location"] + "/edit"
    planned = await browser.post(edit, data=fields(await browser.get(edit)) | {"name": "Globex 2"}, headers=FORM)
    assert (await browser.post(edit, data=fields(planned) | {"act": "do"}, headers=FORM)).status_code == 303
    assert "Globex 2" in (await browser.get(made.headers["location"])).text


async def test_the_pages_of_other_kinds_have_no_forms(world: ConsoleWorld) -> None:
    browser = await world("root")
    for path in ("/console/apps/new", "/console/none/new", "/console/users/x/edit", "/console/environments/none/edit"):
        assert (await browser.get(path)).status_code == 404
