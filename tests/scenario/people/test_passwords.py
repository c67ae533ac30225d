"""Passwords through a whole platform: changed in a Secret, and guessed at."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.model.resource import CREDENTIAL_LABEL, Ref
from tenantry.model.verdicts import NotFound
from tests.scenario.rest_world import PASSWORD, World, declare, world_in
from tests.support.waiting import eventually

ENGINE = "/e/acme/dev/api/v1"
NAMESPACE = "tenant-acme"
SECRET = Ref("Secret", NAMESPACE, "ada-password")


def engine_of(world: World) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(world.platform.hosting), base_url="http://platform")


async def write_secret(world: World, password: str) -> None:
    """As a person would, with kubectl or in the YAML."""
    data = {"password": base64.b64encode(password.encode()).decode()}
    try:
        held = await world.platform.state.writing.get(SECRET)
    except NotFound:
        labels = {CREDENTIAL_LABEL: "identity"}
        metadata: dict[str, Any] = {"name": SECRET.name, "namespace": NAMESPACE, "labels": labels}
        await world.platform.state.writing.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    else:
        await world.platform.state.writing.replace({**held, "data": data}, held["metadata"]["resourceVersion"])


async def test_a_password_that_changes_in_its_secret_reaches_the_engine_and_ends_older_tokens(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        await world.tenant("acme")
        await world.environment("acme", "dev")
        await write_secret(world, "the first password")
        spec = {"environment": "dev", "username": "ada", "passwordSecretRef": {"name": SECRET.name}}
        await declare(world.platform, "Identity", "ada", spec, NAMESPACE)
        await world.platform.converged()
        async with engine_of(world) as engine:
            form = {"username": "ada", "password": "the first password"}
            token = (await engine.post(f"{ENGINE}/auth/token", data=form)).json()["access_token"]
            headers = {"Authorization": f"Bearer {token}"}
            assert (await engine.get(f"{ENGINE}/auth/me", headers=headers)).status_code == 200
            await write_secret(world, "the second password")
            await world.platform.converged()
            assert (await engine.get(f"{ENGINE}/auth/me", headers=headers)).status_code == 401
            assert (await engine.post(f"{ENGINE}/auth/token", data=form)).status_code == 401
            assert (await engine.get(f"{ENGINE}/auth/me", auth=("ada", "the second password"))).status_code == 200
        identity = world.platform.state.cache.document(Ref("Identity", NAMESPACE, "ada"))
        assert identity is not None and identity["status"]["credential"]
        stored = await asyncio.to_thread(lambda: b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()))
        assert b"the first password" not in stored and b"the second password" not in stored


@pytest.mark.parametrize("username", ["root", "nobody"], ids=["a name that somebody has", "a name that nobody has"])
async def test_who_guesses_at_the_facade_is_held_back_and_the_right_password_soon_works(tmp_path: Path, username: str) -> None:
    async with world_in(tmp_path) as world:

        async def guess(password: str, name: str = username) -> httpx.Response:
            return await world.http.post("/api/v1/auth/token", data={"username": name, "password": password})

        answers = [await guess(f"wrong {n}") for n in range(7)]
        assert [one.status_code for one in answers] == [401] * 5 + [429] * 2
        assert answers[-1].json()["error"].startswith("too many failed sign-ins") and answers[-1].headers["Retry-After"] == "1"
        if username == "root":

            async def is_let_in() -> bool:
                return (await guess(PASSWORD)).status_code == 200

            await eventually(is_let_in)


async def test_who_guesses_at_an_engine_is_held_back_at_that_engine_by_form_and_by_basic(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        await world.environment("acme", "dev")
        await world.environment("acme", "test")
        async with engine_of(world) as engine:
            for attempt in range(5):
                wrong = ("admin", f"wrong {attempt}")
                if attempt % 2:
                    answer = await engine.get(f"{ENGINE}/admin/apps", auth=wrong)
                else:
                    answer = await engine.post(
                        f"{ENGINE}/auth/token", data=dict(zip(("username", "password"), wrong, strict=True))
                    )
                assert answer.status_code == 401
            for path in ("/admin/apps", "/auth/me", "/data/crm/contacts"):
                held = await engine.get(f"{ENGINE}{path}", auth=("admin", "wrong"))
                assert (held.status_code, held.headers["Retry-After"]) == (429, "1"), path
            elsewhere = await engine.get("/e/acme/test/api/v1/admin/apps", auth=("admin", "wrong"))
            assert elsewhere.status_code == 401
