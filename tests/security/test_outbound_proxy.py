"""By a proxy, issuers and hosts of packages are reached by CONNECT only, end to end encrypted, and by no local name."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenantry.bootstrap.outward import rules_of, web_rules_of
from tenantry.model.verdicts import Invalid
from tenantry.rest.outbound import Rules, checked_url
from tenantry.settings import OutboundSettings
from tests.scenario.packages.trust import certified
from tests.support.patience import DEADLINE_S

PROXY = Path(__file__).parents[1] / "scenario" / "engines" / "connect_proxy.py"
ISSUER = "https://issuer.example"
TARGET = "issuer.example:443"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/jwks",
}
CLIENT = """
import asyncio, json, sys
from tenantry.adapters.fetching.downloads import Downloads, body_of
from tenantry.bootstrap.outward import web_rules_of
from tenantry.oidc.issuers import Issuers
from tenantry.rest.outbound import Outbound
from tenantry.model.verdicts import Halt
from tenantry.settings import Settings

async def issuer(url, rules):
    return (await Issuers(Outbound(rules)).issuer(url)).token_endpoint

async def package(url, rules):
    async with Downloads(rules).open(url, "spec.source.url") as answer:
        return [answer.status_code, len(await body_of(answer, 1 << 20))]

async def main(what, url):
    try:
        return await {"issuer": issuer, "package": package}[what](url, web_rules_of(Settings().outbound))
    except Halt as halt:
        return f"{type(halt).__name__}: {halt.verdict.message}"

print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
"""


@dataclass
class World:
    """A host of TLS that only the proxy finds. ca: who vouches for it."""

    folder: Path
    ca: Path
    proxy: asyncio.subprocess.Process
    port: int

    async def ask(self, what: str, url: str, **variables: str) -> Any:
        """Return the answer that a process of the platform gets through the proxy."""
        settings = {"TENANTRY_OUTBOUND__PROXY": f"http://127.0.0.1:{self.port}", "SSL_CERT_FILE": str(self.ca)}
        asked = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, what, url, stdout=asyncio.subprocess.PIPE, env={**os.environ, **settings, **variables}
        )
        out, _ = await asked.communicate()
        return json.loads(out.splitlines()[-1])  # before it, what is logged

    async def requests(self) -> list[str]:
        """The requests that the proxy got. Ends it."""
        self.proxy.terminate()
        assert self.proxy.stdout is not None
        return (await self.proxy.stdout.read()).decode().splitlines()


@asynccontextmanager
async def world_in(folder: Path) -> AsyncIterator[World]:
    context, ca = certified(folder, "issuer.example")
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=context)
    targets = json.dumps({TARGET: server.sockets[0].getsockname()[1]})
    proxy = await asyncio.create_subprocess_exec(sys.executable, PROXY, targets, stdout=asyncio.subprocess.PIPE)
    assert proxy.stdout is not None
    try:
        yield World(folder, ca, proxy, int(await asyncio.wait_for(proxy.stdout.readline(), DEADLINE_S)))
    finally:
        server.close()
        if proxy.returncode is None:
            proxy.terminate()
        await proxy.wait()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
    bodies = {"/.well-known/openid-configuration": DOCUMENT, "/jwks": {"keys": []}}
    body = json.dumps(bodies.get(path, {"path": path})).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
    writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()


@pytest.mark.slow
async def test_an_issuer_is_reached_by_connect_and_proves_itself_end_to_end(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        assert await world.ask("issuer", ISSUER) == f"{ISSUER}/token"
        (tmp_path / "another").mkdir()
        _, another = certified(tmp_path / "another")
        untrusted = await world.ask("issuer", ISSUER, SSL_CERT_FILE=str(another))
        assert "CERTIFICATE_VERIFY_FAILED" in untrusted
        asked = await world.requests()
        assert len(asked) >= 2
        assert set(asked) == {f"CONNECT {TARGET}"}


@pytest.mark.slow
async def test_a_package_is_downloaded_by_connect(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        status, size = await world.ask("package", f"{ISSUER}/crm.tapp")
        assert (status, size > 0) == (200, True)
        assert await world.requests() == [f"CONNECT {TARGET}"]


@pytest.mark.slow
async def test_what_the_proxy_refuses_is_not_reached(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        told = [await world.ask(what, "https://elsewhere.example/") for what in ("issuer", "package")]
        assert all("403" in each and "elsewhere.example" in each for each in told), told


@pytest.mark.slow
@pytest.mark.parametrize("what", ["issuer", "package"])
async def test_a_url_that_is_refused_never_comes_to_the_proxy(tmp_path: Path, what: str) -> None:
    async with world_in(tmp_path) as world:
        for url in ("https://127.0.0.1/", "https://localhost/", "http://issuer.example/"):
            assert "must begin with https" in (told := await world.ask(what, url)) or "Internet" in told or "public" in told
        assert await world.requests() == []


PROXIED = Rules(http=True, proxy="http://proxy:3128")
REFUSED = (
    "https://10.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest", "https://2130706433/", "https://0x7f.1/",
    "https://localhost/", "https://LOCALHOST./", "https://a.localhost/", "https://engine/", "https://metadata.google.internal/",
    "https://tenantry-api.tenantry-system.svc/", "https://x.svc.cluster.local/", "https://printer.local./", "https://nas.home.arpa/",
    "http://issuer.example/",
)  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_by_a_proxy_literal_addresses_local_names_and_plain_http_are_refused(url: str) -> None:
    with pytest.raises(Invalid):
        checked_url(url, PROXIED)


def test_by_a_proxy_a_name_of_the_internet_and_a_public_address_are_taken() -> None:
    for url in (
        "https://issuer.example/",
        "https://issuer.example.:8443/",
        "https://93.184.216.34/",
        "https://internal.example/",
    ):
        assert str(checked_url(url, PROXIED)).startswith("https://")


def test_the_proxy_is_for_issuers_and_packages_only() -> None:
    settings = OutboundSettings(proxy="http://proxy:3128")
    assert (web_rules_of(settings).proxy, rules_of(settings).proxy) == ("http://proxy:3128", "")
