"""C7: sign-in to the console through a real identity provider, and the ends of such a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.api.auth.trusted_issuers import ConsoleClient, Trusted, TrustedIssuer
from tenantry.console.app import add_console
from tenantry.oidc.tokens import foreign_tokens
from tests.scenario.console.console_world import BASE, FORM, ConsoleWorld, Parsed, console_world, csrf_of
from tests.scenario.identity_provider import IdentityProvider, authorized
from tests.scenario.people.sign_in_world import LOOPBACK

CLIENT = "tenantry-console"
NEXT = "/console/environments?q=a"


class World(NamedTuple):
    """A platform and the provider that signs people in to its console."""

    console: ConsoleWorld
    provider: IdentityProvider

    async def arrival(self, browser: httpx.AsyncClient, sub: str, next_: str = NEXT) -> str:
        """The address at which a browser comes back from the provider."""
        page = await browser.get("/console/sign-in", params={"next": next_})
        begin = next(link for link in Parsed(page.text).links if "/sign-in/" in link)
        sent = await browser.get(begin)
        assert sent.status_code == 303, sent.text
        query = parse_qs(urlsplit(sent.headers["location"]).query)
        assert (query["code_challenge_method"], query["redirect_uri"]) == (["S256"], [f"{BASE}/console/callback"])
        return await authorized(sent.headers["location"], sub)

    async def signed_in(self, sub: str) -> httpx.AsyncClient:
        """The browser of somebody whom the provider knows."""
        browser = await self.console.browser()
        answer = await browser.get(await self.arrival(browser, sub))
        assert (answer.status_code, answer.headers["location"]) == (303, NEXT), answer.text
        return browser


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        provider = IdentityProvider()
        client = ConsoleClient("Example", CLIENT, "openid", lambda: "s3cret/+")
        trusted = Trusted(foreign_tokens(LOOPBACK), [TrustedIssuer(provider.url, CLIENT, client=client)])
        console = await stack.enter_async_context(console_world(tmp_path, trusted=trusted))
        tenant = await console.rest.tenant("acme")
        await console.rest.environment("acme", "dev")
        await console.rest.tenant("globex")
        await console.rest.environment("globex", "theirs")
        provider.users = (
            {"sub": "root@example.com", "role": "SUPERUSER"},
            {"sub": "ada", "role": "ADMIN", "tenantId": tenant},
            {"sub": "nobody"},
            {"sub": "stray", "role": "ADMIN", "tenantId": "none"},
            {"sub": "odd", "role": "SUPERUSER", "tenantId": tenant},
        )
        await provider.start()
        stack.push_async_callback(provider.stop)
        yield World(console, provider)


@pytest.mark.slow
async def test_a_person_signs_in_by_an_issuer_with_the_rights_of_its_claims(world: World) -> None:
    ada, root = await world.signed_in("ada"), await world.signed_in("root@example.com")
    shown = (await ada.get("/console/environments")).text
    assert ("DEV" in shown, "THEIRS" in shown) == (True, False)
    assert (await ada.get("/console/tenants")).status_code == 403
    assert "THEIRS" in (await root.get("/console/environments")).text


@pytest.mark.slow
async def test_rest_refuses_the_cookie_of_such_a_session(world: World) -> None:
    browser = await world.signed_in("ada")
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    assert (await browser.get("/api/v1/environments", headers={"Cookie": cookies})).status_code == 401
    assert "tenantry-sign-in-8080" not in browser.cookies


@pytest.mark.slow
async def test_a_sign_out_ends_such_a_session_on_the_server_and_no_other(world: World) -> None:
    browser, other = await world.signed_in("ada"), await world.signed_in("ada")
    page, token = (await browser.get("/console/")).text, browser.cookies["tenantry-console-8080"]
    assert (await browser.post("/console/sign-out", data={"csrf": csrf_of(page)}, headers=FORM)).status_code == 303
    copied = {"Cookie": f"tenantry-console-8080={token}"}
    assert (await browser.get("/console/", headers=copied)).status_code == 303
    assert (await browser.get("/api/v1/environments", headers={"Authorization": f"Bearer {token}"})).status_code == 401
    assert (await other.get("/console/")).status_code == 200
    page = (await other.get("/console/")).text
    assert (await other.post("/console/sign-out", data={"csrf": csrf_of(page)}, headers=FORM)).status_code == 303
    assert (await world.signed_in("ada")).cookies


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sub", "why"),
    [("nobody", "names no role"), ("stray", "tenant does not exist"), ("odd", "a SUPERUSER has no tenant")],
)
async def test_a_person_without_rights_here_is_refused_and_sees_why(world: World, sub: str, why: str) -> None:
    browser = await world.console.browser()
    answer = await browser.get(await world.arrival(browser, sub))
    assert (answer.status_code, why in answer.text) == (401, True)
    assert "tenantry-console-8080" not in browser.cookies


@pytest.mark.slow
async def test_a_sign_in_counts_once_and_only_in_the_browser_that_began_it(world: World) -> None:
    browser, thief = await world.console.browser(), await world.console.browser()
    arrival = await world.arrival(browser, "ada")
    assert (await thief.get(arrival)).status_code == 401
    await world.arrival(thief, "ada")
    assert (await thief.get(arrival)).status_code == 401
    assert "tenantry-console-8080" not in thief.cookies
    assert (await browser.get(arrival)).status_code == 303
    assert (await browser.get(arrival)).status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize("query", ["", "?code=x", "?state=x&code=x", "?error=access_denied%3Cscript%3E"])
async def test_a_return_that_nobody_began_signs_nobody_in(world: World, query: str) -> None:
    browser = await world.console.browser()
    for began in (False, True):
        if began:
            await world.arrival(browser, "ada")
        answer = await browser.get(f"/console/callback{query}")
        assert (answer.status_code, "<script>" in answer.text) == (401, False)
    assert (await browser.get("/console/sign-in/none")).status_code == 404


@pytest.mark.slow
async def test_a_session_ends_with_its_tenant_and_with_its_issuer(world: World) -> None:
    browser, root = await world.signed_in("ada"), await world.signed_in("root@example.com")
    tenant = world.console.context.owners.named("acme")
    assert tenant is not None
    await world.console.rest("root", "DELETE", f"/tenants/{tenant.metadata.uid}", headers={"Prefer": "wait=60"})
    await world.console.rest.platform.converged()
    assert (await browser.get("/console/")).status_code == 303
    without = create_app(
        replace(world.console.rest.platform.facade, trusted=None), lambda app, context: add_console(app, context)
    )
    cookies = {"Cookie": f"tenantry-console-8080={root.cookies['tenantry-console-8080']}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(without), base_url=BASE) as client:
        assert (await client.get("/console/", headers=cookies)).status_code == 303


@pytest.mark.slow
async def test_an_issuer_that_is_away_is_named_on_the_sign_in_page(world: World) -> None:
    away = IdentityProvider()
    client = ConsoleClient("Away", CLIENT)
    trusted = Trusted(foreign_tokens(LOOPBACK), [TrustedIssuer(away.url, CLIENT, client=client)])
    app = create_app(replace(world.console.rest.platform.facade, trusted=trusted), lambda app, context: add_console(app, context))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as browser:
        page = await browser.get("/console/sign-in")
        begin = next(link for link in Parsed(page.text).links if "/sign-in/" in link)
        answer = await browser.get(begin)
        assert (answer.status_code, 'role="alert"' in answer.text) == (503, True)
        assert 'name="password"' in answer.text
