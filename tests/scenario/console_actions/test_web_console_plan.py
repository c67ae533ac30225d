"""C5: the plan page of the console shows the lines of `tenantry plan`, applies by digest, and shows what moved."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.scenario.console.console_world import FORM, ConsoleWorld, console_world, csrf_of
from tests.scenario.hosts import object_
from tests.scenario.rest_world import declare

PLAN = "/console/plan"
TENANT = object_("Tenant", "", "acme", displayName="Acme")
ENVIRONMENT = object_("Environment", "tenant-acme", "dev", region="here", displayName="Development")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with console_world(tmp_path) as one:
        await one.rest.platform.converged()
        yield one


def fields(page: httpx.Response) -> dict[str, str]:
    """The hidden fields and the text of the form."""
    form = page.text.partition(f'action="{PLAN}"')[2]
    found = {name: html.unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}
    text = re.findall(r"<textarea [^>]*>\n?(.*?)</textarea>", form, re.DOTALL)
    return found | {"text": html.unescape(text[0])}


def lines(page: httpx.Response) -> list[str]:
    """The lines of the plan, group by group."""
    groups = re.findall(r'<ul class="lines">(.*?)</ul>', page.text, re.DOTALL)
    return [html.unescape(line) for group in groups for line in re.findall(r"<li[^>]*>(.*?)</li>", group, re.DOTALL)]


async def planned(world: ConsoleWorld, user: str, *documents: object, **more: str) -> httpx.Response:
    browser = await world(user)
    text = yaml.safe_dump_all(documents)
    sent = {"csrf": csrf_of((await browser.get("/console/")).text), "text": text, "act": "plan", **more}
    return await browser.post(PLAN, data=sent, headers=FORM)


async def test_a_plan_is_shown_by_tenant_and_carried_out_by_its_digest(world: ConsoleWorld) -> None:
    before = world.rest.platform.state.store.version
    page = await planned(world, "root", TENANT, ENVIRONMENT)
    assert page.status_code == 200
    shown = lines(page)
    assert shown[0] == "+ Tenant/acme"
    assert "+ Environment/tenant-acme/dev" in shown
    assert re.findall(r"<h3>(.*?) <span", page.text) == ["Tenant acme"]
    assert world.rest.platform.state.store.version == before
    done = await (await world("root")).post(PLAN, data=fields(page) | {"act": "do"}, headers=FORM)
    assert done.status_code == 200
    assert [one for one in ("Tenant/acme", "Environment/tenant-acme/dev") if one not in done.text] == []
    assert done.text.count('<span class="mono">created</span>') == 2
    await world.rest.platform.converged()
    again = await planned(world, "root", TENANT, ENVIRONMENT)
    assert (lines(again), "Nothing changes" in again.text) == ([], True)


async def test_a_plan_that_moved_is_refused_and_shows_what_changed(world: ConsoleWorld) -> None:
    page = await planned(world, "root", TENANT, ENVIRONMENT)
    await world.rest.tenant("acme")
    await world.rest.platform.converged()
    moved = await (await world("root")).post(PLAN, data=fields(page) | {"act": "do"}, headers=FORM)
    assert moved.status_code == 412
    assert "Changed since you looked" in moved.text
    assert "no longer:</span> + Tenant/acme" in moved.text
    assert fields(moved)["plan"] != fields(page)["plan"]
    assert (await world.rest("acme-admin", "GET", "/environments")).json() == []
    for digest in ("", "0" * 64):
        forged = await (await world("root")).post(PLAN, data=fields(moved) | {"act": "do", "plan": digest}, headers=FORM)
        assert forged.status_code == 412


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: [", "YAML:"),
        ("kind: Tenant\n", "YAML:1"),
        ("", "declares nothing"),
        ("a: &a [1]\nb: *a\n", "YAML:"),
        (yaml.safe_dump({**TENANT, "spec": {"slug": "--"}}), "spec.slug"),
        (yaml.safe_dump({**TENANT, "metadata": {"name": "acme", "labels": {"tenantry.dev/source": "main"}}}), "by the platform"),
        (yaml.safe_dump(object_("Operation", "tenantry-system", "op-1", action="X")), "Operation"),
    ],
)
async def test_a_text_that_is_refused_says_where_and_is_kept(world: ConsoleWorld, text: str, told: str) -> None:
    browser, before = await world("root"), world.rest.platform.state.store.version
    sent = {"csrf": csrf_of((await browser.get("/console/")).text), "text": text}
    for act in ("plan", "do"):
        page = await browser.post(PLAN, data=sent | {"act": act, "plan": "0" * 64}, headers=FORM)
        assert told in html.unescape(page.text)
        assert page.status_code in (200, 400, 412)
        assert fields(page)["text"] == text
    assert world.rest.platform.state.store.version == before


@pytest.mark.slow
async def test_a_tenant_s_admin_declares_for_its_tenant_only(world: ConsoleWorld) -> None:
    for slug in ("acme", "globex"):
        await world.rest.tenant(slug)
    await world.rest.platform.converged()
    assert (await (await world("acme-viewer")).get(PLAN)).status_code == 403
    assert (await planned(world, "acme-viewer", ENVIRONMENT)).status_code == 403
    page = await planned(world, "acme-admin", ENVIRONMENT)
    assert lines(page)[0] == "+ Environment/tenant-acme/dev"
    foreign = object_("Environment", "tenant-globex", "dev", region="here")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "tenant-acme"},
        "stringData": {"a": "b"},
    }
    for document, told in ((foreign, "must be tenant-acme"), (secret, "only a SUPERUSER"), (TENANT, "only a SUPERUSER")):
        before = world.rest.platform.state.store.version
        refused = await planned(world, "acme-admin", document)
        assert told in html.unescape(refused.text)
        assert lines(refused) == []
        done = await (await world("acme-admin")).post(
            PLAN, data=fields(refused) | {"act": "do", "plan": "0" * 64, "text": yaml.safe_dump(document)}, headers=FORM
        )
        assert done.status_code in (400, 403, 412)
        assert world.rest.platform.state.store.version == before
    done = await (await world("acme-admin")).post(PLAN, data=fields(page) | {"act": "do"}, headers=FORM)
    assert done.status_code == 200
    assert [one["slug"] for one in (await world.rest("acme-admin", "GET", "/environments")).json()] == ["dev"]


async def test_what_a_source_declares_is_refused_with_its_place(world: ConsoleWorld) -> None:
    await world.rest.tenant("acme")
    labels, files = {"tenantry.dev/source": "main"}, {"tenantry.dev/source-file": "a.yaml:3"}
    await declare(world.rest.platform, "Environment", "dev", {"region": "here"}, "tenant-acme", labels=labels, annotations=files)
    await world.rest.platform.runtime.idle(1)
    page = await planned(world, "acme-admin", {**ENVIRONMENT, "spec": {"region": "here", "displayName": "Other"}})
    assert "a.yaml:3" in page.text
    assert 'value="do"' not in page.text
