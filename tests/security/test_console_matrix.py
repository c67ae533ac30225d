"""C8: every route of the console, by seven principals, on own, foreign and absent objects: foreign equals absent."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from tenantry.console.reading.rights import PLURALS, TYPES
from tests.scenario.console.console_world import FORM, ConsoleWorld, console_world, csrf_of
from tests.scenario.rest_world import declare

ABSENT = "0f0f0f0f-0000-4000-8000-000000000000"
MEMBERS = ("acme-admin", "acme-viewer")
VERBS = ("delete", "cancel", "reconcile", "suspend", "resume", "approve", "backup", "nonsense")
OPEN = {
    ("GET", "/console"),
    ("GET", "/console/sign-in"),
    ("POST", "/console/sign-in"),
    ("GET", "/console/sign-in/{issuer}"),
    ("GET", "/console/callback"),
    ("GET", "/console/enter"),
    ("GET", "/console/static/{version}/{name}"),
}
"""Routes for who has no session yet."""
EACH_ID = {
    ("GET", "/console/live"): ("/console/live?once=1&of=/{plural}/{id}",),
    ("GET", "/console/plan"): (
        "/console/plan?edit={plural}/{id}",
        "/console/plan?app={id}&version=1",
        "/console/plan?app={own_app}&environment={id}&version=1",
    ),
    ("POST", "/console/plan"): (),
    ("GET", "/console/removed"): ("/console/removed?id={id}",),
    ("GET", "/console/removed/{id}"): ("/console/removed/{id}",),
    ("POST", "/console/removed/{id}"): ("/console/removed/{id}",),
    ("POST", "/console/sign-out"): (),
    ("GET", "/console/apps/{id}/rows"): ("/console/apps/{id}/rows", "/console/apps/{id}/rows?table=contacts"),
    ("GET", "/console/environments/{id}/publish"): ("/console/environments/{id}/publish",),
    ("POST", "/console/environments/{id}/publish"): ("/console/environments/{id}/publish",),
    ("GET", "/console/{plural}/new"): ("/console/{plural}/new",),
    ("POST", "/console/{plural}/new"): ("/console/{plural}/new",),
    ("GET", "/console/{plural}/{id}/edit"): ("/console/{plural}/{id}/edit",),
    ("POST", "/console/{plural}/{id}/edit"): ("/console/{plural}/{id}/edit",),
    ("GET", "/console/{plural}/{id}/{verb}"): tuple(f"/console/{{plural}}/{{id}}/{verb}" for verb in VERBS),
    ("POST", "/console/{plural}/{id}/{verb}"): tuple(f"/console/{{plural}}/{{id}}/{verb}" for verb in VERBS),
    ("GET", "/console/{path:path}"): (
        "/console/{plural}/{id}",
        "/console/{plural}?q={id}",
        "/console/search?q={id}",
        "/console/{id}",
    ),
}
"""The addresses of each route that name an object of a kind."""
pytestmark = pytest.mark.slow


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with console_world(tmp_path) as one:
        for slug in ("acme", "globex"):
            await one.rest.tenant(slug)
            await one.rest.environment(slug, "dev")
            spec = {"environment": "dev", "app": "crm", "version": "1.0.0"}
            await declare(one.rest.platform, "App", "dev.crm", spec, f"tenant-{slug}")
            identity = {"environment": "dev", "username": "ann", "passwordSecretRef": {"name": "none"}}
            await declare(one.rest.platform, "Identity", "ann", identity, f"tenant-{slug}")
            source = {"url": "https://git.example.com/none.git", "suspend": True}
            await declare(one.rest.platform, "Source", "main", source, f"tenant-{slug}")
        await one.rest.platform.runtime.idle(1)
        yield one


def routes(world: ConsoleWorld) -> Iterator[tuple[str, str]]:
    for route in world.app.routes:
        if isinstance(route, Route) and route.path.startswith("/console"):
            yield from ((method, route.path) for method in (route.methods or ()) if method != "HEAD")


def foreign_objects(world: ConsoleWorld) -> list[tuple[str, str, str]]:
    """The plural, the id and the name of an object of each kind that members of acme do not see."""
    cache, found = world.rest.platform.state.cache, []
    for plural, kind in PLURALS.items():
        for one in cache.resources(kind):
            of_globex = "globex" in str(cache.document(one.ref))
            if of_globex or kind in ("Tenant", "User"):
                found.append((plural, one.metadata.uid if kind != "Operation" else one.metadata.name, one.metadata.name))
                break
    return found


async def send(browser: httpx.AsyncClient, method: str, path: str, form: dict[str, str]) -> httpx.Response:
    return await browser.request(method, path, **({"data": form, "headers": FORM} if method == "POST" else {}))  # type: ignore[arg-type]


def shown(answer: httpx.Response, id_: str) -> tuple[int, str, str]:
    """An answer without the id that was asked for, and without what differs from one page to the next of the same."""
    text = re.sub(r'(<time [^>]*>)[^<]*|seen=\w+|data-seen="\w+"', r"\1", answer.text)
    return answer.status_code, answer.headers.get("location", "").replace(id_, "ID"), text.replace(id_, "ID")


async def test_every_route_has_its_row(world: ConsoleWorld) -> None:
    assert set(routes(world)) == OPEN | set(EACH_ID)


async def test_a_foreign_object_is_answered_like_an_absent_one(world: ConsoleWorld) -> None:
    found = foreign_objects(world)
    assert {plural for plural, _, _ in found} >= {
        "tenants",
        "users",
        "environments",
        "apps",
        "identities",
        "sources",
        "operations",
    }
    own_app = next(iter(world.rest.platform.state.cache.resources("App", "tenant-acme"))).metadata.uid
    before = world.rest.platform.state.store.version
    differing, tried = [], 0
    for user in MEMBERS:
        browser = await world(user)
        form = {"csrf": csrf_of((await browser.get("/console/")).text), "plan": "0" * 64, "act": "do", "generation": "1"}
        for (method, _), patterns in EACH_ID.items():
            for plural, id_, name in found:
                for pattern in patterns:
                    pair = []
                    for each in (id_, ABSENT):
                        path = pattern.replace("{plural}", plural).replace("{id}", each).replace("{own_app}", own_app)
                        answer = await send(browser, method, path, form | {"name": name})
                        assert answer.status_code < 500, path
                        pair.append(shown(answer, each))
                        tried += 1
                    if pair[0] != pair[1]:
                        differing.append((user, method, pattern, plural, pair[0][:2], pair[1][:2]))
    assert differing == []
    assert tried > 500
    assert world.rest.platform.state.store.version == before


async def test_who_has_no_session_is_sent_to_the_sign_in_by_every_route(world: ConsoleWorld) -> None:
    """Nobody, and somebody whose user was removed."""
    nobody, removed = await world.browser(), await world("globex-viewer")
    users = (await world.rest("root", "GET", "/users")).json()
    id_ = next(user["id"] for user in users if "globex-viewer" in user.values())
    form = {"csrf": csrf_of((await removed.get("/console/")).text)}
    assert (await world.rest("root", "DELETE", f"/users/{id_}", headers={"Prefer": "wait=60"})).status_code == 200
    cookies = httpx.Cookies(removed.cookies)
    for browser in (nobody, removed):
        for (method, _), patterns in EACH_ID.items():
            for pattern in patterns or ("/console/plan",):
                path = pattern.replace("{plural}", "environments").replace("{id}", ABSENT).replace("{own_app}", ABSENT)
                if browser is removed:
                    browser.cookies = cookies
                answer = await send(browser, method, path, form)
                assert answer.status_code == 303, (method, path, answer.status_code)
                assert answer.headers["location"].startswith("/console/sign-in"), path


async def test_lists_and_searches_show_nothing_of_another_tenant(world: ConsoleWorld) -> None:
    for user in MEMBERS:
        browser = await world(user)
        for path in ("", "search?q=dev", "search?q=globex", *(TYPES[kind].PLURAL for kind in TYPES)):
            page = await browser.get(f"/console/{path}")
            assert not re.search(r"(?<!q=)(?<!q%3D)(?<!value=\")globex", page.text), path
