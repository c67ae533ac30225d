"""A whole sign-in at a `tenantry engine` that has a proxy in front of it, or one between it and its identity provider."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.scenario.cli import serving
from tests.scenario.engines.reverse_proxy import reverse_proxy
from tests.scenario.identity_provider import IdentityProvider
from tests.scenario.packages.trust import certified

NAME = "crm.example"
ISSUER = "issuer.example"
CONNECT_PROXY = Path(__file__).parent / "connect_proxy.py"
LOOPBACK = {"TENANTRY_OUTBOUND__HTTP": "true", "TENANTRY_OUTBOUND__NETWORKS": "127.0.0.0/8"}
TRUSTED: dict[str, Any] = {"TENANTRY_HTTP__PROXIES": "127.0.0.1/32"}
"""The address from which the proxy connects. Clients are at others of this machine."""
FREE = 5
"""Failures of one username from one address before it must wait."""


@dataclass
class World:
    """url: of the engine as browsers reach it; direct: of its own socket."""

    url: str
    direct: str
    provider: str
    admin: tuple[str, str]
    trust: ssl.SSLContext
    proxied: str = ""
    """The URL of the proxy by which the identity provider is reached, `""` for none."""

    def client(self, address: str = "127.0.0.2", **options: Any) -> httpx.AsyncClient:
        """Return a browser at that address of this machine."""
        transport = httpx.AsyncHTTPTransport(verify=self.trust, local_address=address)
        return httpx.AsyncClient(base_url=self.url, transport=transport, timeout=30, **options)

    async def begun(self, browser: httpx.AsyncClient) -> tuple[str, str]:
        """The redirect URI of a sign-in that the browser begins, and the provider's page."""
        answer = await browser.get(f"/auth/login/{self.provider}", params={"next": "/after"})
        assert answer.status_code == 303, answer.text
        page = answer.headers["location"]
        return parse_qs(urlsplit(page).query)["redirect_uri"][0], page

    async def signed_in_there(self, page: str) -> str:
        """The URL to which the provider sends the browser back."""
        options: dict[str, Any] = {"proxy": self.proxied, "verify": self.trust} if self.proxied else {}
        async with httpx.AsyncClient(**options) as browser:
            answer = await browser.post(page, data={"sub": "ada"})
            assert answer.status_code == 302, answer.text
            return str(answer.headers["location"])

    async def guesses(self, address: str, number: int = FREE, url: str = "", **headers: str) -> list[int]:
        """The statuses of that many wrong passwords from an address."""
        async with self.client(address, headers=headers) as client:
            body = {"username": "admin", "password": "a wrong guess"}
            return [(await client.post(f"{url}/api/v1/auth/token", data=body)).status_code for _ in range(number)]


@asynccontextmanager
async def world(folder: Path, *, outbound: bool = False, public: bool = False, **variables: str) -> AsyncIterator[World]:
    """An engine behind a reverse proxy. outbound: it reaches its provider through another; public: its URL is declared."""
    context, ca = certified(folder, NAME, ISSUER)
    trust = ssl.create_default_context(cafile=str(ca))
    async with AsyncExitStack() as stack:
        process = IdentityProvider()
        await process.start()
        stack.push_async_callback(process.stop)
        front = await stack.enter_async_context(reverse_proxy(context))
        url, issuer, proxied = f"https://127.0.0.1:{front.port}", process.url, ""
        if outbound:
            issuer, proxied = f"https://{ISSUER}", await _outbound(stack, context, int(process.url.rpartition(":")[2]))
            variables |= {"TENANTRY_OUTBOUND__PROXY": proxied, "SSL_CERT_FILE": str(ca)}
        else:
            variables |= LOOPBACK
        variables |= {"TENANTRY_PUBLIC_URL": url} if public else {}
        arguments = ("engine", "--data", folder / "data", "--listen", "127.0.0.1:0")
        running = stack.enter_context(serving(*arguments, cwd=folder, **variables))
        front.target = int(running.url.rpartition(":")[2])
        admin = ("admin", (folder / "data" / "admin-password").read_text().strip())
        provider = await _provider(running.url, admin, issuer)
        yield World(url, running.url, provider, admin, trust, proxied)


async def _outbound(stack: AsyncExitStack, context: ssl.SSLContext, port: int) -> str:
    """The URL of a proxy of CONNECT that alone finds the identity provider, by https and its name."""
    there = await stack.enter_async_context(reverse_proxy(context))
    there.target = port
    targets = json.dumps({f"{ISSUER}:443": there.port})
    proxy = await asyncio.create_subprocess_exec(sys.executable, CONNECT_PROXY, targets, stdout=asyncio.subprocess.PIPE)
    assert proxy.stdout is not None
    stack.push_async_callback(proxy.wait)
    stack.callback(proxy.terminate)
    return f"http://127.0.0.1:{int(await asyncio.wait_for(proxy.stdout.readline(), 30))}"


async def _provider(url: str, admin: tuple[str, str], issuer: str) -> str:
    declared = {
        "name": "corp", "issuer_url": issuer, "client_id": "crm", "client_secret": "s3cret",
        "auto_provision": True, "is_active": True, "default_roles": {},
    }  # fmt: skip
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.post(f"{url}/api/v1/admin/idps/external", json=declared, auth=admin)
        assert answer.status_code < 300, answer.text
        return str(answer.json()["id"])


def flags(answer: httpx.Response, cookie: str) -> set[str]:
    """The attributes of a cookie that an answer sets."""
    (line,) = (
        each for each in answer.headers.get_list("set-cookie") if each.startswith(f"{cookie}=") and "Max-Age=0" not in each
    )
    return {part.strip().lower() for part in line.split(";")[1:]}


async def completes(world: World) -> None:
    """A sign-in goes through to the end, its cookies are for https alone, and its session ends with the sign-out."""
    async with world.client() as browser:
        begun = await browser.get(f"/auth/login/{world.provider}", params={"next": "/after"})
        assert {"secure", "httponly", "samesite=lax", "path=/"} <= flags(begun, "tenantry_login")
        redirect, page = await world.begun(browser)
        assert redirect == f"{world.url}/auth/callback"
        done = await browser.get(await world.signed_in_there(page))
        assert (done.status_code, done.headers["location"]) == (303, "/after")
        assert {"secure", "httponly", "samesite=lax", "path=/"} <= flags(done, "tenantry_session")
        assert (await browser.get("/api/v1/auth/me")).json()["username"] == "ada"
        foreign = [f"http{world.url.removeprefix('https')}", "https://evil.example", "null"]
        refused = [(await browser.post("/auth/logout", headers={"Origin": each})).status_code for each in foreign]
        assert refused == [403, 403, 403]
        assert (await browser.post("/auth/logout", headers={"Origin": world.url})).status_code == 204
        assert (await browser.get("/api/v1/auth/me")).status_code == 401


@pytest.mark.slow
async def test_behind_a_proxy_that_is_named_a_sign_in_and_the_throttle_see_the_browser(tmp_path: Path) -> None:
    async with world(tmp_path, **TRUSTED) as one:
        listed = (await one.client().get("/auth/login")).json()["data"]
        assert [each["url"] for each in listed] == [f"{one.url}/auth/login/{one.provider}"]
        await completes(one)
        assert 429 in await one.guesses("127.0.0.2", 3 * FREE)
        assert await one.guesses("127.0.0.3") == [401] * FREE
        spoofed: dict[str, Any] = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http"}
        assert 429 in await one.guesses("127.0.0.2", **spoofed), "the proxy says who asks, not the client"


@pytest.mark.slow
async def test_who_comes_by_another_way_is_not_believed(tmp_path: Path) -> None:
    async with world(tmp_path, **TRUSTED) as one:
        said = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
        async with one.client("127.0.0.4", headers=said) as direct:
            answer = await direct.get(f"{one.direct}/auth/login/{one.provider}")
        (redirect,) = parse_qs(urlsplit(answer.headers["location"]).query)["redirect_uri"]
        assert redirect == f"{one.direct}/auth/callback"
        assert "secure" not in flags(answer, "tenantry_login")
        assert 429 in await one.guesses("127.0.0.4", 3 * FREE, one.direct, **said)
        assert 429 in await one.guesses("127.0.0.4", FREE, one.direct, **said | {"X-Forwarded-For": "203.0.113.10"})
        assert await one.guesses("127.0.0.5", FREE, one.direct, **said) == [401] * FREE


@pytest.mark.slow
async def test_behind_a_proxy_that_is_not_named_nothing_it_says_counts(tmp_path: Path) -> None:
    async with world(tmp_path) as one, one.client() as browser:
        redirect, _ = await one.begun(browser)
        assert redirect == f"http{one.url.removeprefix('https')}/auth/callback"
        begun = await browser.get(f"/auth/login/{one.provider}")
        assert "secure" not in flags(begun, "tenantry_login")
        assert 429 in await one.guesses("127.0.0.2", 3 * FREE)
        assert 429 in await one.guesses("127.0.0.3"), "all clients of the proxy are one address"


@pytest.mark.slow
async def test_a_declared_url_counts_behind_a_proxy_that_is_not_named(tmp_path: Path) -> None:
    async with world(tmp_path, public=True) as one:
        await completes(one)


@pytest.mark.slow
async def test_a_sign_in_through_a_proxy_to_the_provider_comes_to_its_end(tmp_path: Path) -> None:
    async with world(tmp_path, outbound=True, **TRUSTED) as one:
        await completes(one)
