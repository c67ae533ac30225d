"""C8: each action of each kind, by each principal, on its own, a foreign and an absent object: enabled if it works."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api.platform.reconcile_controls import APPROVE, RECONCILE, RESUME, SUSPEND
from tenantry.console.reading.rights import TYPES
from tenantry.console.views.actions import BACK_UP, CANCEL, DELETE, EDIT, PUBLISH, WAKE
from tests.scenario.console.console_world import FORM, ConsoleWorld, console_world, csrf_of, sign_in
from tests.scenario.rest_world import declare
from tests.support.published_packages import package

ABSENT = "0f0f0f0f-0000-4000-8000-000000000000"
USERS = ("root", "acme-admin", "acme-viewer", "globex-admin", "globex-viewer")
VERBS = (RECONCILE, SUSPEND, RESUME, APPROVE, EDIT, PUBLISH, BACK_UP, WAKE, CANCEL, DELETE)

SLOW = ("Environment spare", "Environment declared")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with console_world(tmp_path) as one:
        for slug in ("acme", "globex"):
            await one.rest.tenant(slug)
            await one.rest.environment(slug, "dev")
            namespace = f"tenant-{slug}"
            platform = one.rest.platform
            await declare(platform, "App", "dev.crm", {"environment": "dev", "app": "crm", "version": "1.0.0"}, namespace)
            secret = {"name": "none", "key": "password"}
            identity = {"environment": "dev", "username": "ann", "passwordSecretRef": secret}
            await declare(platform, "Identity", "ann", identity, namespace)
            await declare(platform, "Environment", "spare", {"region": "nowhere"}, namespace)
            declared = {"tenantry.dev/source": "main"}
            files = {"tenantry.dev/source-file": "a.yaml:3"}
            await declare(platform, "Environment", "declared", {"region": "here"}, namespace, labels=declared, annotations=files)
        await one.rest.platform.runtime.idle(1)
        yield one


def ids(world: ConsoleWorld, group: str) -> dict[str, str]:
    """A page of each kind in a namespace, or outside of all."""
    cache = world.rest.platform.state.cache
    found = [one for kind in TYPES for one in cache.resources(kind) if one.metadata.namespace == group and kind != "Operation"]
    return {f"{one.KIND} {one.metadata.name}": f"/console/{one.PLURAL}/{one.metadata.uid}" for one in found}


def form_of(page: httpx.Response) -> dict[str, str] | None:
    """Return the form of the enabled button of an action; None for a page without one."""
    text = page.text.rpartition('<form method="post"')[2]
    if page.status_code != 200 or 'class="confirm"' not in page.text:
        return None
    found = re.findall(r'<input [^>]*name="(\w+)" value="([^"]*)"', text)
    typed = re.findall(r"<code>([^<]+)</code></label>", text)
    return {name: html.unescape(value) for name, value in found} | ({"name": typed[0]} if typed else {})


async def tried(browser: httpx.AsyncClient, path: str) -> tuple[bool, bool]:
    """Return whether an action is enabled, and whether the server carries it out."""
    page = await browser.get(path)
    form = form_of(page)
    sent = form or {"csrf": csrf_of((await browser.get("/console/")).text), "plan": "0" * 64, "name": path.split("/")[3]}
    if form is not None and path.endswith("/edit"):
        shown = await browser.post(path, data=form | {"name": "Other"}, headers=FORM)
        sent = (form_of(shown) or form) | {"act": "do"}
    if path.endswith("/publish"):
        chosen = await browser.post(path, data=sent, headers=FORM, **package("1.0.0"))
        kept = re.findall(r'name="(plan|package)" value="([^"]*)"', chosen.text)
        sent |= {**dict(kept), "act": "do"}
        answer = await browser.post(path, files={name: (None, value) for name, value in sent.items()}, headers=FORM)
    else:
        answer = await browser.post(path, data=sent, headers=FORM)
    assert answer.status_code in (200, 303, 400, 403, 404, 412), (path, answer.text)
    return form is not None, answer.status_code == 303 or "content-disposition" in answer.headers


@pytest.mark.slow
async def test_an_action_is_enabled_exactly_if_the_server_carries_it_out(world: ConsoleWorld) -> None:
    mismatches: list[Any] = []
    enabled: set[tuple[str, str, str]] = set()
    objects = {**ids(world, "tenant-acme"), **ids(world, "")}
    assert len(objects) >= 7
    for user in ("acme-viewer", "globex-viewer", "globex-admin", "acme-admin", "root"):
        browser = await world(user)
        for name, path in objects.items():
            for verb in VERBS:
                if verb == DELETE and "spare" not in name and user in ("acme-admin", "root"):
                    continue  # what is gone shows nothing of the actions that come after it
                if verb == PUBLISH and name in SLOW and user in ("acme-admin", "root"):
                    continue  # REST waits for an engine that does not come, then says that the Operation continues
                linked = f'href="{path}/{verb}"' in (await browser.get(path)).text
                shown, done = await tried(browser, f"{path}/{verb}")
                # Only the form can know what is wrong with the values that an object has, such as a Region that is missing.
                if linked != shown and (verb, name) != (EDIT, "Environment spare"):
                    mismatches.append((user, name, verb, "the page of the object", linked, shown))
                if done:
                    enabled.add((user, name.split()[0], verb))
                if shown != done:
                    mismatches.append((user, name, verb, shown, done))
    assert mismatches == []
    assert {verb for user, kind, verb in enabled if (user, kind) == ("acme-admin", "Environment")} == {
        RECONCILE, SUSPEND, RESUME, EDIT, PUBLISH, DELETE,
    }  # fmt: skip
    assert {kind for user, kind, _ in enabled if user == "acme-admin"} == {"Environment", "App", "Identity"}
    assert {(RECONCILE), (SUSPEND)} <= {verb for user, kind, verb in enabled if (user, kind) == ("root", "Region")}
    assert not [each for each in enabled if "viewer" in each[0] or "globex" in each[0]]


@pytest.mark.slow
async def test_the_actions_of_a_foreign_object_equal_those_of_an_absent_one(world: ConsoleWorld) -> None:
    for user in USERS[1:]:
        browser = await world(user)
        foreign = ids(world, "tenant-globex" if user.startswith("acme") else "tenant-acme")
        for path in foreign.values():
            uid = path.rpartition("/")[2]
            for verb in ("", *(f"/{verb}" for verb in VERBS)):
                theirs, none = await browser.get(path + verb), await browser.get(path.replace(uid, ABSENT) + verb)
                assert (theirs.status_code, theirs.text.replace(uid, ABSENT)) == (none.status_code, none.text), (user, path, verb)
                assert theirs.status_code in (403, 404)


async def test_nobody_and_a_removed_user_see_no_action(world: ConsoleWorld) -> None:
    removed = await world.browser()
    await sign_in(removed, "acme-admin")
    users = (await world.rest("root", "GET", "/users")).json()
    id_ = next(user["id"] for user in users if "acme-admin" in user.values())
    assert (await world.rest("root", "DELETE", f"/users/{id_}", headers={"Prefer": "wait=60"})).status_code == 200
    for browser in (removed, await world.browser()):
        for path in ids(world, "tenant-acme").values():
            for verb in VERBS:
                answers = [await browser.get(f"{path}/{verb}"), await browser.post(f"{path}/{verb}", data={}, headers=FORM)]
                assert [answer.status_code for answer in answers] in ([303, 303], [303, 403])
