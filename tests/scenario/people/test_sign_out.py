"""Signing out of the facade: one session ends, in every replica and for good."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.bootstrap.embedded import Platform
from tenantry.model.resource import SOURCE, SYSTEM_NAMESPACE, Ref
from tests.scenario.rest_world import BASE, PASSWORD, World, world_in

REFUSED = {"error": "the token is no longer valid: it was signed out"}


async def signed_in(world: World, username: str) -> Mapping[str, str]:
    """The header of a session of its own."""
    answer = await world.http.post("/api/v1/auth/token", data={"username": username, "password": PASSWORD})
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


async def me(world: World, session: Mapping[str, str]) -> httpx.Response:
    return await world("", "GET", "/auth/me", headers=session)


@pytest.mark.parametrize("username", ["root", "acme-admin", "acme-viewer"])
async def test_a_user_of_any_role_ends_one_session_and_no_other(tmp_path: Path, username: str) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        here, there = await signed_in(world, username), await signed_in(world, username)
        out = await world("", "POST", "/auth/logout", headers=here)
        assert (out.status_code, out.content) == (204, b"")
        refused = await me(world, here)
        assert (refused.status_code, refused.json(), refused.headers["WWW-Authenticate"]) == (401, REFUSED, "Bearer")
        assert (await world("", "POST", "/auth/logout", headers=here)).status_code == 401
        assert [(await me(world, each)).status_code for each in (there, await signed_in(world, username))] == [200, 200]


async def test_another_replica_refuses_it_too(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        session = await signed_in(world, "root")
        transport = httpx.ASGITransport(create_app(world.platform.facade))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as other:
            assert (await other.get("/api/v1/auth/me", headers=session)).status_code == 200
            assert (await world("", "POST", "/auth/logout", headers=session)).status_code == 204
            assert (await other.get("/api/v1/auth/me", headers=session)).json() == REFUSED


async def test_a_sign_out_outlives_a_restart(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        await world.tenant("acme")
        out, stays = await signed_in(world, "acme-admin"), await signed_in(world, "acme-admin")
        assert (await world("", "POST", "/auth/logout", headers=out)).status_code == 204
    platform = await Platform.open(tmp_path, BASE)
    try:
        await platform.start()
        transport = httpx.ASGITransport(create_app(platform.facade))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as http:
            assert (await http.get("/api/v1/auth/me", headers=out)).json() == REFUSED
            assert (await http.get("/api/v1/auth/me", headers=stays)).status_code == 200
    finally:
        await platform.close()


async def test_a_user_that_a_source_declares_signs_out_and_its_declaration_is_not_written(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        ref = Ref("User", SYSTEM_NAMESPACE, "root")
        held = await world.platform.state.writing.get(ref)
        declared = {**held, "metadata": {**held["metadata"], "labels": {SOURCE: "company"}}}
        before = await world.platform.state.writing.replace(declared, held["metadata"]["resourceVersion"])
        session = await signed_in(world, "root")
        assert (await world("", "POST", "/auth/logout", headers=session)).status_code == 204
        assert (await me(world, session)).status_code == 401
        after = await world.platform.state.writing.get(ref)
        assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], before["metadata"]["generation"])
