"""The console's sign-in, rights and pages, on a running platform."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tenantry.console.http.pages import HEADERS
from tenantry.console.reading.rights import PLURALS
from tests.scenario.console.console_world import BASE, FORM, ConsoleWorld, Parsed, console_world, csrf_of, sign_in
from tests.scenario.rest_world import PASSWORD, declare

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types htmx"
)
"""Nothing inline, nothing from elsewhere, and only htmx makes markup of text."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with console_world(tmp_path) as one:
        yield one


async def test_a_browser_is_sent_to_the_console_and_from_there_to_the_sign_in(world: ConsoleWorld) -> None:
    browser = await world.browser()
    first = await browser.get("/", headers={"Accept": "text/html,*/*"})
    assert (first.status_code, first.headers["location"]) == (303, "/console/")
    assert (await browser.get("/", headers={"Accept": "*/*"})).status_code == 200
    for path in ("/console/", "/console/environments?q=a%20b&state=ready", "/console/no/such/page"):
        answer = await browser.get(path)
        assert answer.status_code == 303, path
        shown = await browser.get(answer.headers["location"])
        assert shown.status_code == 200
        action = next(str(attributes["action"]) for tag, attributes in Parsed(shown.text).tags if tag == "form")
        signed = await browser.post(action, data={"username": "root", "password": PASSWORD}, headers=FORM)
        assert signed.headers["location"] == path
        browser.cookies.clear()


@pytest.mark.parametrize("cookie", [True, False], ids=["a cookie of an ended session", "no cookie any more"])
async def test_whoever_signs_in_in_between_is_back_on_the_page_that_was_open(world: ConsoleWorld, cookie: bool) -> None:
    browser = await world("root")
    shown, csrf = "/console/plan?edit=regions/here", csrf_of((await browser.get("/console/")).text)
    held = httpx.Cookies(browser.cookies)
    await browser.post("/console/sign-out", data={"csrf": csrf}, headers=FORM)
    browser.cookies = held if cookie else httpx.Cookies()
    news = {"Sec-Fetch-Mode": "cors", "Referer": f"{BASE}{shown}"}
    answers = [
        await browser.post("/console/plan", data={"csrf": csrf, "text": "a: b"}, headers=FORM | {"Referer": f"{BASE}{shown}"}),
        await browser.get("/console/live", params={"of": "/plan", "once": "1"}, headers=news),
    ]
    for answer in answers:
        again = await browser.get(answer.headers["location"])
        action = next(str(attributes["action"]) for tag, attributes in Parsed(again.text).tags if tag == "form")
        signed = await browser.post(action, data={"username": "root", "password": PASSWORD}, headers=FORM)
        assert signed.headers["location"] == shown


async def test_the_session_is_a_cookie_that_scripts_and_rest_do_not_read(world: ConsoleWorld) -> None:
    browser = await world.browser()
    answer = await sign_in(browser, "root")
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=lax", "Path=/console", "tenantry-console-8080="))
    assert (await browser.get("/console/")).status_code == 200
    token = browser.cookies["tenantry-console-8080"]
    for cookies in (f"tenantry-console-8080={token}", f"__Host-tenantry-console={token}"):
        assert (await browser.get("/api/v1/environments", headers={"Cookie": cookies})).status_code == 401

    over_tls = await world.browser(base="https://platform.example")
    origin = {"Origin": "https://platform.example", "Sec-Fetch-Site": "same-origin"}
    cookie = (await sign_in(over_tls, "root", headers=origin)).headers["set-cookie"]
    assert all(word in cookie for word in ("__Host-tenantry-console=", "Secure", "HttpOnly", "Path=/;"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": BASE, "Sec-Fetch-Site": "cross-site"},
        {"Origin": BASE, "Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
async def test_a_form_counts_only_from_a_page_of_the_console(world: ConsoleWorld, headers: dict[str, str]) -> None:
    browser = await world.browser()
    foreign = await browser.post("/console/sign-in", data={"username": "root", "password": PASSWORD}, headers=headers)
    assert (foreign.status_code, "set-cookie" in foreign.headers) == (403, False)


async def test_malformed_addresses_are_no_failure_of_the_server(world: ConsoleWorld) -> None:
    browser, unsigned = await world("root"), await world.browser()
    at_no_host = await browser.get("/console/", headers={"Host": "["})
    from_nowhere = await unsigned.post("/console/plan", data={}, headers=FORM | {"Referer": "http://["})
    of_nothing = await browser.get("/console/live", params={"of": "//[", "once": "1"})
    assert [each.status_code for each in (at_no_host, from_nowhere, of_nothing)] == [403, 303, 200]
    assert from_nowhere.headers["location"] == "/console/sign-in?next="


async def test_a_form_carries_the_token_of_its_session(world: ConsoleWorld) -> None:
    browser, other = await world("root"), await world.browser()
    await sign_in(other, "root")
    stolen = csrf_of((await other.get("/console/")).text)
    for csrf in ("", "0" * 64, stolen):
        assert (await browser.post("/console/sign-out", data={"csrf": csrf}, headers=FORM)).status_code == 403
    assert (await browser.get("/console/")).status_code == 200


async def test_a_sign_out_ends_the_session_on_the_server(world: ConsoleWorld) -> None:
    browser = await world("root")
    page, token = (await browser.get("/console/")).text, browser.cookies["tenantry-console-8080"]
    out = await browser.post("/console/sign-out", data={"csrf": csrf_of(page)}, headers=FORM)
    assert (out.status_code, out.headers["location"]) == (303, "/console/sign-in")
    copied = {"Cookie": f"tenantry-console-8080={token}"}
    assert (await browser.get("/console/", headers=copied)).status_code == 303
    assert (await browser.get("/api/v1/environments", headers={"Authorization": f"Bearer {token}"})).status_code == 401


@pytest.mark.parametrize(
    ("method", "body"),
    [("DELETE", None), ("PUT", {"type": "ADMIN"}), ("PUT", {"password": "another long password"})],
    ids=["deleted", "another role", "another password"],
)
async def test_a_session_ends_when_its_user_is_deleted_or_changed(world: ConsoleWorld, method: str, body: dict[str, str]) -> None:
    await world.rest.tenant("acme")
    browser = await world("acme-viewer")
    assert (await browser.get("/console/")).status_code == 200
    users = (await world.rest("root", "GET", "/users")).json()
    id_ = next(user["id"] for user in users if "acme-viewer" in user.values())
    done = await world.rest("root", method, f"/users/{id_}", json=body, headers={"Prefer": "wait=60"})
    assert done.status_code == 200, done.text
    assert (await browser.get("/console/")).status_code == 303


async def test_a_wrong_password_is_told_and_the_name_is_kept(world: ConsoleWorld) -> None:
    browser = await world.browser()
    answer = await sign_in(browser, "ro<b>ot", "wrong")
    assert answer.status_code == 401
    assert "wrong username or password" in answer.text
    assert 'value="ro&lt;b&gt;ot"' in answer.text
    assert PASSWORD not in answer.text


@pytest.mark.parametrize(
    "next_", ["https://evil.example/", "//evil.example", "/console/..//evil", "/api/v1/users", "/console/\\x"]
)
async def test_a_sign_in_leads_to_pages_of_the_console_only(world: ConsoleWorld, next_: str) -> None:
    browser = await world.browser()
    form = {"username": "root", "password": PASSWORD}
    answer = await browser.post("/console/sign-in", params={"next": next_}, data=form, headers=FORM)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")


async def test_plain_http_beyond_this_machine_shows_why_nobody_signs_in(world: ConsoleWorld) -> None:
    far = await world.browser(base="http://platform.example:8080")
    page = await far.get("/console/sign-in")
    assert (page.status_code, "TENANTRY_HTTP__PROXIES" in page.text) == (403, True)
    origin = {"Origin": "http://platform.example:8080", "Sec-Fetch-Site": "same-origin"}
    answer = await sign_in(far, "root", headers=origin)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    by_number = await world.browser(base="http://127.0.0.1:8080")
    moved = await by_number.get("/console/environments?q=a")
    assert (moved.status_code, moved.headers["location"]) == (307, f"{BASE}/console/environments?q=a")


async def test_a_code_signs_in_once_from_this_machine(world: ConsoleWorld) -> None:
    code = world.rest.platform.one_time_code()
    far, near, later = await world.browser(("203.0.113.9", 1)), await world.browser(), await world.browser()
    assert (await far.get("/console/enter", params={"code": code})).status_code == 403
    proxied = {"X-Forwarded-For": "203.0.113.9"}
    assert (await near.get("/console/enter", params={"code": code}, headers=proxied)).status_code == 403
    assert (await near.get("/console/enter", params={"code": code})).status_code == 303
    assert "SUPERUSER" in (await near.get("/console/")).text
    again = await later.get("/console/enter", params={"code": code})
    assert (again.status_code, "set-cookie" in again.headers) == (401, False)


async def test_every_answer_has_the_headers_of_a_page(world: ConsoleWorld) -> None:
    root, nobody = await world("root"), await world.browser()
    answers = [await root.get(f"/console/{path}") for path in ("", "environments", "environments/none", "nothing/at/all")]
    answers += [await nobody.get(path) for path in ("/console/sign-in", "/console/", "/console")]
    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, answer.url
        assert not [tag for tag, attributes in Parsed(answer.text).tags if "style" in attributes]
        assert not [1 for tag, attributes in Parsed(answer.text).tags if any(name.startswith("on") for name in attributes)]
    assert HEADERS["Content-Security-Policy"] == POLICY


async def test_an_error_links_to_its_explanation_and_each_page_to_the_documentation(world: ConsoleWorld) -> None:
    browser = await world("root")
    missing = await browser.get("/console/environments/none")
    assert (missing.status_code, "/docs/reasons/#notfound" in Parsed(missing.text).links) == (404, True)
    plan = await browser.get("/console/plan")
    assert {"/docs/", "/docs/api/"} <= set(Parsed(plan.text).links)
    refused = await browser.post("/console/plan", data={"csrf": csrf_of(plan.text), "text": ""}, headers=FORM)
    assert (refused.status_code, "/docs/reasons/#http-400" in Parsed(refused.text).links) == (400, True)
    assert "/docs/reasons/#http-400" not in Parsed(plan.text).links


@pytest.mark.slow
async def test_pages_are_no_part_of_the_description_of_rest(world: ConsoleWorld) -> None:
    browser = await world.browser()
    described = (await browser.get("/openapi.json")).json()
    assert [path for path in described["paths"] if path.startswith("/console")] == []
    served = {getattr(route, "path", ""): getattr(route, "include_in_schema", None) for route in world.app.routes}
    assert {shown for path, shown in served.items() if path.startswith("/console")} == {False}


async def test_a_tenant_s_user_sees_only_the_tenant_and_foreign_equals_absent(world: ConsoleWorld) -> None:
    for slug in ("acme", "globex"):
        await world.rest.tenant(slug)
        await world.rest.environment(slug, "secretplace")
    ids = {}
    for slug in ("acme", "globex"):
        ids[slug] = (await world.rest(f"{slug}-admin", "GET", "/environments")).json()[0]["id"]
    for user in ("acme-admin", "acme-viewer"):
        browser = await world(user)
        own = await browser.get(f"/console/environments/{ids['acme']}")
        assert (own.status_code, "SECRETPLACE" in own.text) == (200, True)
        foreign = await browser.get(f"/console/environments/{ids['globex']}")
        absent = await browser.get("/console/environments/0f0f")
        assert (foreign.status_code, absent.status_code) == (404, 404)
        assert foreign.text.replace(ids["globex"], "0f0f") == absent.text
        assert "no Environment with id 0f0f" in absent.text
        pages = [(await browser.get(f"/console/{plural}")) for plural in ("", *PLURALS)]
        assert not [page.url for page in pages if "globex" in page.text or ids["globex"] in page.text]
        denied = {page.url.path for page in pages if page.status_code != 200}
        assert denied == {"/console/tenants", "/console/users"}
        operation = (await world.rest("globex-admin", "GET", "/operations")).json()[0]["id"]
        assert (await browser.get(f"/console/operations/{operation}")).status_code == 404


@pytest.mark.slow
async def test_every_link_of_every_page_leads_somewhere_and_changes_nothing(world: ConsoleWorld) -> None:
    await world.rest.tenant("acme")
    await world.rest.environment("acme", "dev")
    platform = world.rest.platform
    await platform.converged()
    browser, before = await world("root"), platform.state.store.version
    seen, waiting = set[str](), ["/console/"]
    while waiting:
        path = waiting.pop()
        answer = await browser.get(path)
        assert answer.status_code == 200, path
        seen.add(path)
        found = {link.split("#")[0] for link in Parsed(answer.text).links if link.startswith("/console/")}
        waiting += found - seen - set(waiting)
    assert len(seen) > 15
    assert platform.state.store.version == before


async def test_an_environment_shows_its_state_and_what_to_do(world: ConsoleWorld) -> None:
    await world.rest.tenant("acme")
    platform = world.rest.platform
    await declare(platform, "Environment", "lost", {"region": "nowhere"}, "tenant-acme")
    await platform.runtime.idle(1)
    browser = await world("acme-admin")
    page = await browser.get("/console/environments?q=lost")
    links = (link for link in Parsed(page.text).links if link.startswith("/console/environments/"))
    link = next(link for link in links if not link.endswith("/new"))
    shown = await browser.get(link)
    assert "nowhere" in shown.text
    assert "tenantry describe environment lost -n tenant-acme" in shown.text
