"""The facade and the tokens of issuers in its settings: role and tenant by their claims, and the same forgeries refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api.auth.trusted_issuers import Trusted, TrustedIssuer
from tenantry.bootstrap.sign_in import trusted
from tenantry.oidc.tokens import foreign_tokens
from tenantry.settings import IssuerSettings, OutboundSettings, Settings
from tests.campaigns.tried import Tried
from tests.scenario.rest_world import World as Platform
from tests.scenario.rest_world import world_in
from tests.scenario.serving import serving
from tests.security.forging import CLIENT, FOREIGN, FORGED, GOOD, LOOPBACK, RSA, Issuer, published, token_of

SUPERUSER = {"role": "SUPERUSER"}


@dataclass
class World:
    """A platform that trusts two issuers. tenant: the id of tenant acme."""

    platform: Platform
    issuer: Issuer
    other: Issuer
    tenant: str
    claims: dict[str, Any] = field(default_factory=dict)

    async def get(self, path: str, token: str) -> httpx.Response:
        headers = {b"Authorization": f"Bearer {token}".encode()}
        return await self.platform.http.get(f"/api/v1{path}", headers=headers)

    async def post(self, path: str, token: str, body: dict[str, Any]) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}", "Prefer": "wait=60"}
        return await self.platform.http.post(f"/api/v1{path}", headers=headers, json=body)


@asynccontextmanager
async def world_of(state: Path) -> AsyncIterator[World]:
    issuer, other = Issuer(keys=published()), Issuer(keys=[FOREIGN.as_dict(private=False)])
    async with AsyncExitStack() as stack:
        issuer.url = await stack.enter_async_context(serving(issuer.app()))
        other.url = await stack.enter_async_context(serving(other.app()))
        issuers = [TrustedIssuer(issuer.url, CLIENT), TrustedIssuer(other.url, CLIENT, "realm.roles", "org")]
        platform = await stack.enter_async_context(world_in(state, trusted=Trusted(foreign_tokens(LOOPBACK), issuers)))
        tenant = await platform.tenant("acme")
        await platform.tenant("globex")
        yield World(platform, issuer, other, tenant, {"role": "ADMIN", "tenantId": tenant})


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(tmp_path) as one:
        yield one


async def test_a_user_of_a_trusted_issuer_is_who_the_claims_say(world: World) -> None:
    for claims, role, tenant in (
        ({}, "ADMIN", world.tenant),
        ({"role": ["VIEWER"]}, "VIEWER", world.tenant),
        ({"role": "SUPERUSER", "tenantId": ...}, "SUPERUSER", ""),
        ({"role": "SUPERUSER", "tenantId": ""}, "SUPERUSER", ""),
    ):
        answer = await world.get("/auth/me", token_of(world, **claims))
        assert answer.json() == {"sub": f"{world.issuer.url}#ada", "role": role, "tenantId": tenant}
    deep: dict[str, Any] = {"iss": world.other.url, "realm": {"roles": "VIEWER"}, "org": world.tenant, "role": "SUPERUSER"}
    me = (await world.get("/auth/me", token_of(world, FOREIGN, **deep))).json()
    assert (me["sub"], me["role"]) == (f"{world.other.url}#ada", "VIEWER")


async def test_each_role_may_what_a_local_user_of_that_role_may(world: World) -> None:
    body = {"name": "Dev", "slug": "dev", "region": "here"}
    assert (await world.post("/environments", token_of(world, role="VIEWER"), body)).status_code == 403
    assert (await world.get("/tenants", token_of(world))).status_code == 403
    assert len((await world.get("/tenants", token_of(world, role="SUPERUSER", tenantId=...))).json()) == 2
    made = await world.post("/environments", token_of(world), body)
    assert made.status_code == 202
    operation = (await world.get(f"/operations/{made.json()['operation_id']}", token_of(world))).json()
    assert (operation["createdBy"], operation["result"]) == (f"{world.issuer.url}#ada", "SUCCESS")
    assert (await world.get("/environments", token_of(world, role="VIEWER"))).json()[0]["slug"] == "dev"
    local = await world.platform("globex-admin", "GET", "/environments")
    assert local.json() == []


async def test_a_sign_out_says_that_the_issuer_ends_its_sessions(world: World) -> None:
    token = token_of(world)
    answer = await world.post("/auth/logout", token, {})
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "the token comes from another issuer: sign out there",
    )
    assert (await world.get("/auth/me", token)).status_code == 200


REFUSED: dict[str, dict[str, Any]] = {
    "no role": {"role": ...},
    "an unknown role": {"role": "ROOT"},
    "a role in small letters": {"role": "admin"},
    "several roles": {"role": ["VIEWER", "SUPERUSER"]},
    "a role that is a number": {"role": 1},
    "no tenant": {"tenantId": ...},
    "an empty tenant": {"tenantId": ""},
    "a tenant's slug": {"tenantId": "acme"},
    "an unknown tenant": {"tenantId": "00000000-0000-4000-8000-000000000000"},
    "several tenants": {"tenantId": ["a", "b"]},
    "a tenant that is an object": {"tenantId": {"id": "a"}},
    "a viewer of no tenant": {"role": "VIEWER", "tenantId": ...},
}


async def test_claims_that_name_no_role_or_no_living_tenant_are_401(world: World) -> None:
    for name, claims in REFUSED.items():
        answer = await world.get("/auth/me", token_of(world, **claims))
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), name
    answer = await world.get("/auth/me", token_of(world, role="SUPERUSER"))
    assert (answer.status_code, answer.json()["error"]) == (401, "a SUPERUSER has no tenant, but the token names one")


async def test_a_token_ends_with_its_tenant(world: World) -> None:
    token = token_of(world)
    assert (await world.get("/auth/me", token)).status_code == 200
    superuser = token_of(world, role="SUPERUSER", tenantId=...)
    headers = {"Authorization": f"Bearer {superuser}", "Prefer": "wait=60"}
    assert (await world.platform.http.delete(f"/api/v1/tenants/{world.tenant}", headers=headers)).status_code in (200, 202)
    await world.platform.platform.converged()
    assert (await world.get("/auth/me", token)).status_code == 401


@pytest.mark.slow
async def test_each_forged_token_is_refused_by_the_facade_and_nothing_it_names_is_asked(world: World, tried: Tried) -> None:
    for name, make in GOOD.items():
        assert (await world.get("/auth/me", make(world))).status_code == 200, name
    world.issuer.asked.clear()
    for name, make in FORGED.items():
        world.other.asked.clear()
        answer = await world.get("/auth/me", make(world))
        assert (answer.status_code, set(answer.json())) == (401, {"error"}), name
        if name != "the other issuer's name, our key":
            assert world.other.asked == [], name
        tried()
    assert world.issuer.asked == []


async def test_an_issuer_that_cannot_be_asked_is_503_and_local_users_do_not_notice(world: World) -> None:
    world.issuer.raw = b"not JSON"
    assert (await world.get("/auth/me", token_of(world))).status_code == 503
    assert (await world.platform("acme-admin", "GET", "/auth/me")).status_code == 200


async def test_without_the_setting_nobody_elses_token_counts(tmp_path: Path) -> None:
    issuer = Issuer(keys=[RSA.as_dict(private=False)])
    async with serving(issuer.app()) as url, world_in(tmp_path) as platform:
        issuer.url = url
        token = token_of(World(platform, issuer, issuer, "", {"role": "SUPERUSER"}))
        answer = await platform.http.get("/api/v1/auth/me", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, issuer.asked) == (401, [])


async def test_issuers_are_named_by_a_setting_and_asked_through_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    issuer = Issuer(keys=[RSA.as_dict(private=False)])
    async with serving(issuer.app()) as url:
        issuer.url = url
        monkeypatch.setenv("TENANTRY_ISSUERS", f'[{{"issuer": "{url}", "audience": "{CLIENT}"}}]')
        settings = Settings()
        assert settings.issuers == (IssuerSettings(issuer=url, audience=CLIENT),)
        token = token_of(World(None, issuer, issuer, "", SUPERUSER))  # type: ignore[arg-type]
        guarded = trusted(settings)
        assert guarded is not None and guarded.issued(token)
        with pytest.raises(Exception, match="https"):
            await guarded.user(token)
        assert issuer.asked == []
        opened = trusted(Settings(outbound=OutboundSettings(http=True, networks="127.0.0.0/8")))
        assert opened is not None and (await opened.user(token)).id == f"{url}#ada"
