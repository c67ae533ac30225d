"""Every endpoint of an engine in a pool, by each role and door: the people of one tenant reach nothing of the other.

The names of what globex has hold a canary; it may stand in no answer to the people of acme.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tenantry.engine.access import Served
from tenantry.model.facts import Password
from tests.campaigns.tried import Tried
from tests.scenario.data_world import PASSWORD, signed_in
from tests.support.endpoints import SERVED, Endpoint, endpoints, in_order
from tests.support.pool_servers import PoolServerKit
from tests.support.pooled_engines import CANARY, HOSTS, PUBLIC, PooledTenants, tenants_in_a_pool
from tests.support.pools import OTHER, POOL, REF

FORGED = "e30.e30.e30"
NAMED = {"app": "crm", "id": "crm", "version": "1.0.0", "table": "accounts", "key": "1", "username": f"{CANARY}-ann"}
"""All of it exists in the engine of globex."""


class Door(NamedTuple):
    """A way to an engine: what its paths begin with, and the host that is named."""

    base: str
    host: str


GLOBEX = (Door("", HOSTS[OTHER.id]), Door(f"/e/{OTHER.id}", "pool"))
ACME = (Door("", HOSTS[REF.id]), Door(f"/e/{REF.id}", "pool"))
BEHIND_ACME = Door(f"/e/{OTHER.id}", HOSTS[REF.id])
"""The engine of globex below the host of acme, where it is not."""


def clients_of(tenants: PooledTenants) -> httpx.AsyncClient:
    """A client that names its host itself."""
    return httpx.AsyncClient(base_url=tenants.url, timeout=30)


async def tokens_of_acme(tenants: PooledTenants) -> dict[str, str]:
    """Tokens that people of acme may hold, and those of the platform for acme and for the pool."""

    def platform(audience: str) -> str:
        return tenants.kit.keys.sign({"sub": "operator", "aud": audience}, timedelta(minutes=30))

    made = {"operator at acme": platform(f"engine:{REF.id}"), "operator at the pool": platform(f"pool:{POOL}")}
    for username in ("admin", "ed"):
        async with signed_in(tenants.base(), username) as client:
            made[f"{username} of acme"] = client.headers["Authorization"].removeprefix("Bearer ")
    return made


def bodies(endpoint: Endpoint) -> Iterator[Any]:
    """No body, and one that fits the most routes."""
    yield None
    if endpoint.method in ("POST", "PUT", "PATCH"):
        named = {"name": "named", "username": f"{CANARY}-ann", "password": "a long password"}
        yield {**named, "url": "https://issuer.example", "clientId": "c", "clientSecret": "s"}


async def ask(
    client: httpx.AsyncClient, door: Door, endpoint: Endpoint, token: str, body: Any, named: Mapping[str, str]
) -> httpx.Response:
    headers = {"Host": door.host} | ({"Authorization": f"Bearer {token}"} if token else {})
    path = endpoint.path.format(**{**NAMED, **named})
    query = "?timeout=0" if path.endswith("/changes") else ""
    return await client.request(endpoint.method, f"{door.base}{path}{query}", headers=headers, json=body)


def names_globex(endpoint: Endpoint, answer: httpx.Response) -> bool:
    """Return True if an answer holds the canary, other than in the path that was asked for."""
    echo = NAMED["username"] if "{username}" in endpoint.path else ""
    return CANARY in answer.text.replace(echo, "")


async def intrusions(tenants: PooledTenants, client: httpx.AsyncClient, found: list[Endpoint], tried: Tried) -> dict[Any, Any]:
    """The requests at the doors of globex whose answer to somebody of acme is another than to a forged token."""
    wrong: dict[Any, Any] = {}
    tokens = await tokens_of_acme(tenants)
    for door in (*GLOBEX, BEHIND_ACME):
        for endpoint in found:
            for body in bodies(endpoint):
                forged = await ask(client, door, endpoint, FORGED, body, {})
                for role, token in {"nobody": "", **tokens}.items():
                    answer = await ask(client, door, endpoint, token, body, {})
                    tried()
                    open_ = endpoint.path.startswith("/auth/") or endpoint.path.endswith("/auth/token")
                    reached = answer.status_code != forged.status_code or (answer.is_success and not open_)
                    if reached or names_globex(endpoint, answer):
                        wrong[door, endpoint, role, body is None] = (answer.status_code, forged.status_code, answer.text[:200])
    return wrong


async def told(
    tenants: PooledTenants, client: httpx.AsyncClient, found: list[Endpoint], ids: Mapping[str, str], tried: Tried
) -> dict[Any, Any]:
    """The answers to the people of acme at their own engine that name something of globex, or are a fault."""
    wrong: dict[Any, Any] = {}
    for role, token in (await tokens_of_acme(tenants)).items():
        for door in ACME:
            for endpoint in found:
                for body in bodies(endpoint):
                    named = ids if "/idps/" in endpoint.path else {}
                    answer = await ask(client, door, endpoint, token, body and {**body, "username": "made"}, named)
                    tried()
                    if answer.status_code not in SERVED or names_globex(endpoint, answer) or PUBLIC in answer.text:
                        wrong[role, door, endpoint, body is None] = (answer.status_code, answer.text[:200])
    return wrong


async def all_of(tenants: PooledTenants) -> list[Endpoint]:
    async with httpx.AsyncClient(base_url=tenants.base()) as client:
        return in_order(endpoints((await client.get("/openapi.json")).json()))


async def of_globex(tenants: PooledTenants) -> tuple[Any, ...]:
    """The present state of globex's engine, but for its rows."""
    admin = tenants.kit.admin(OTHER)
    return await admin.apps(), await admin.identities(), await admin.identity_providers()


@pytest.fixture(params=["volume", "server"])
def server(request: pytest.FixtureRequest) -> PoolServerKit | None:
    """The server that has the rows of the pool, None for its volume."""
    kit: PoolServerKit | None = request.getfixturevalue("pool_server") if request.param == "server" else None
    return kit


@pytest.mark.slow
async def test_nobody_of_one_tenant_reaches_the_engine_of_another_in_a_pool(
    tmp_path: Path, server: PoolServerKit | None, tried: Tried
) -> None:
    async with tenants_in_a_pool(tmp_path, server=server) as tenants, clients_of(tenants) as client:
        found, before = await all_of(tenants), await of_globex(tenants)
        assert await intrusions(tenants, client, found, tried) == {}
        assert await of_globex(tenants) == before
    assert tried.count >= 500


@pytest.mark.slow
async def test_no_endpoint_of_an_engine_tells_of_its_neighbour_in_the_pool(
    tmp_path: Path, server: PoolServerKit | None, tried: Tried
) -> None:
    async with tenants_in_a_pool(tmp_path, server=server) as tenants, clients_of(tenants) as client:
        found, before = await all_of(tenants), await of_globex(tenants)
        ids = {"id": before[2][0].id}
        assert await told(tenants, client, found, ids, tried) == {}
        assert await of_globex(tenants) == before
        async with signed_in(tenants.base(OTHER), "ed") as ed:
            assert (await ed.get("/api/v1/auth/me")).status_code == 200
    assert tried.count >= 300


@pytest.mark.slow
async def test_a_password_of_one_tenant_opens_no_engine_of_another(tmp_path: Path, server: PoolServerKit | None) -> None:
    async with tenants_in_a_pool(tmp_path, server=server) as tenants:
        await tenants.kit.admin(REF).set_password("ed", Password(clear="battery staple"))
        async with httpx.AsyncClient(base_url=tenants.url) as client:
            for host, password, status in (
                (HOSTS[REF.id], "battery staple", 200),
                (HOSTS[REF.id], PASSWORD, 401),
                (HOSTS[OTHER.id], "battery staple", 401),
                (HOSTS[OTHER.id], PASSWORD, 200),
            ):
                form = {"username": "ed", "password": password}
                answer = await client.post("/api/v1/auth/token", data=form, headers={"Host": host})
                assert (host, answer.status_code) == (host, status)


@pytest.mark.slow
async def test_s1_a_token_without_its_engine_as_audience_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: Tried
) -> None:
    async with tenants_in_a_pool(tmp_path) as tenants, clients_of(tenants) as client:
        found = [each for each in await all_of(tenants) if each.method == "GET"]
        with monkeypatch.context() as off:
            off.setattr(Served, "_audience", property(lambda self: f"engine:{REF.id}"))
            seen = {role for _, _, role, _ in await intrusions(tenants, client, found, tried)}
    assert seen == {"operator at acme"}
