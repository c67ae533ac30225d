"""Databases of engines that are damaged behind their header: a request notices it, the Environment shows it; writes get 503."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import cast

import httpx
import pytest

from tenantry.engine.service import Engine
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import endpoint_of
from tenantry.model.verdicts import Halt
from tests.scenario.rest_world import BASE, PASSWORD, World, world_in
from tests.support.endpoints import Endpoint, endpoints, ids_of
from tests.support.published_packages import package
from tests.support.waiting import eventually

PAGE = 4096
ADMIN = "acme-admin"


def database_of(world: World, id_: str) -> Path:
    return world.platform.state.folder / "engines" / id_ / "engine.db"


async def with_app(world: World) -> dict[str, str]:
    """The ids of a tenant with an environment whose engine has an app and a user."""
    ids = await ids_of(world, "acme")
    at = f"/engines/{ids['environments']}/api/v1/admin"
    assert (await world(ADMIN, "POST", f"{at}/apps/publish", **package("1.0.0"))).status_code == 200
    await world.platform.converged()
    return ids


async def damage(world: World, id_: str) -> bytes:
    """Overwrite all pages but the first of an engine's database while nothing has it open. Return the file as it was."""
    file = database_of(world, id_)
    async with world.platform.hosting.closed(id_):
        whole = file.read_bytes()
        assert len(whole) > 2 * PAGE
        file.write_bytes(whole[:PAGE] + os.urandom(len(whole) - PAGE))
    return whole


async def shows(world: World, reason: str) -> None:
    """Wait until the environment has that reason, without a request for it."""

    async def so() -> bool:
        (environment,) = world.platform.state.cache.resources("Environment")
        ready = environment.status.condition("Ready")
        return ready is not None and ready.reason == reason

    await eventually(so)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A platform whose facade waits for engines far longer than a test may take."""
    async with world_in(tmp_path / "a state", durable=True, engine_wait=timedelta(minutes=10)) as made:
        yield made


@pytest.mark.slow
async def test_damage_that_a_request_met_shows_on_the_environment_until_the_file_is_put_back(world: World) -> None:
    ids = await with_app(world)
    id_ = ids["environments"]
    whole = await damage(world, id_)
    at = f"/engines/{id_}/api/v1/admin/identities"
    async with asyncio.timeout(60):
        refused = await world(ADMIN, "POST", at, json={"username": "ann", "password": PASSWORD})
    assert refused.status_code == 503, refused.text
    await shows(world, "DataMissing")
    again = await world(ADMIN, "POST", at, json={"username": "ben", "password": PASSWORD})
    assert (again.status_code, "DataMissing" in again.text) == (503, True), again.text
    planned = await world(ADMIN, "POST", f"{at}?dryRun=true", json={"username": "ben", "password": PASSWORD})
    assert (planned.status_code, planned.json()["error"]) == (503, again.json()["error"])
    database_of(world, id_).write_bytes(whole)
    await shows(world, "Succeeded")
    await world.platform.converged()
    held = {one["username"] for one in (await world(ADMIN, "GET", at)).json()["data"]}
    assert held >= {"admin", "ann"}, "what was declared while it was damaged is delivered"
    assert "ben" not in held, "nothing is written once the damage is known"


async def damage_rows(world: World, id_: str) -> None:
    """Overwrite the page of an app's table: the engine opens, and all but its rows can be read."""
    file = database_of(world, id_)
    async with world.platform.hosting.closed(id_):
        with closing(sqlite3.connect(file)) as connection:
            query = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name LIKE '%contacts'"
            (page,) = connection.execute(query).fetchone()
        with file.open("r+b") as written:
            written.seek((page - 1) * PAGE)
            written.write(os.urandom(PAGE))


@pytest.mark.slow
async def test_damage_of_a_table_that_only_its_readers_meet_shows_on_the_environment(world: World) -> None:
    ids = await with_app(world)
    await damage_rows(world, ids["environments"])
    (environment,) = world.platform.state.cache.resources("Environment")
    endpoint = endpoint_of(cast(Environment, environment))
    assert endpoint is not None
    engine = world.platform.ports.engines.at(endpoint)
    assert [app.id for app in await engine.apps()] == ["crm"]
    with pytest.raises(Halt, match=r"engine\.db is damaged"):
        await engine.apps_with_rows()
    await shows(world, "DataMissing")


async def test_an_engine_that_met_damage_is_not_ready_until_another_file_is_in_its_place(world: World) -> None:
    ids = await with_app(world)
    id_ = ids["environments"]
    file = database_of(world, id_)
    async with world.platform.hosting.closed(id_):
        whole = file.read_bytes()
    await damage_rows(world, id_)
    async with world.platform.hosting.closed(id_):
        engine = await Engine.open(file.parent, owner=id_)
        await engine.check_whole()
        with pytest.raises(Halt):
            await engine.apps_with_rows()
        with pytest.raises(Halt, match="damaged"):
            await engine.check_whole()
        file.rename(file.with_name("damaged.db"))
        file.write_bytes(whole)
        await engine.check_whole()
        await engine.close()


def requests_of(found: Iterator[Endpoint]) -> list[Endpoint]:
    """Those that take something away come last, and nobody signs out."""
    kept = (each for each in found if not each.path.endswith("/auth/logout"))
    return sorted(kept, key=lambda each: (each.method == "DELETE", each.path, each.method))


@asynccontextmanager
async def engines_of(world: World, ids: dict[str, str]) -> AsyncIterator[tuple[httpx.AsyncClient, list[Endpoint]]]:
    """A client of the engine itself, and its endpoints."""
    transport = httpx.ASGITransport(world.platform.hosting, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"{BASE}/e/acme/dev", timeout=60) as http:
        yield http, requests_of(endpoints((await http.get("/openapi.json")).json()))


def filled(endpoint: Endpoint, ids: dict[str, str]) -> str:
    """The path of an endpoint, of the facade or of an engine that has the app crm."""
    named = {"environmentId": ids["environments"], "app": "crm", "table": "contacts", "key": "1", "version": "1.0.0"}
    kind = endpoint.path.split("/")[3] if endpoint.path.startswith("/api/v1/") else ""
    own = {"id": ids.get(kind, "crm"), **named}
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: own.get(found[1], "ann"), endpoint.path)


def without_database(file: Path) -> None:
    file.unlink()


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def without_header(file: Path) -> None:
    file.write_bytes(os.urandom(20_000))


def without_pages(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:PAGE] + os.urandom(20_000))


def without_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("moved"))


HARMS = (without_database, emptied, without_header, without_pages, without_folder)


def made_a_folder(file: Path) -> None:
    file.rename(file.with_name("moved.db"))
    file.mkdir()


@pytest.mark.parametrize("harm", [without_database, emptied, without_header, made_a_folder])
async def test_no_answer_names_a_path_while_the_state_is_damaged(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """Of the facade, at every endpoint. Nothing is acknowledged as written."""
    state = tmp_path / "a state"
    async with world_in(state, durable=True, engine_wait=timedelta(seconds=5)) as world:
        ids = await ids_of(world, "acme")
        headers = {"Authorization": f"Bearer {await world.token('root')}"}
        facade = requests_of(endpoints((await world("", "GET", "/openapi.json")).json()))
        harm(state / "state.db")
        told, stored = [], await world.http.post("/api/v1/tenants", headers=headers, json={"name": "B", "slug": "b"})
        for each in facade:
            json = {"username": "ann", "password": PASSWORD} if each.method in ("POST", "PUT", "PATCH") else None
            answer = await world.http.request(each.method, filled(each, ids), headers=headers, json=json)
            told.append(f"{answer.status_code} {each.method} {each.path}: {answer.text}")
    assert [each for each in told if str(tmp_path) in each] == []
    assert (stored.status_code >= 500, "state.db" in stored.text, str(tmp_path) in stored.text) == (True, True, False), (
        stored.text
    )


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS)
async def test_no_answer_names_a_path_of_the_server(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """Of facade and engine, to anybody, at every endpoint. The folder has a name with a space."""
    state = tmp_path / "a state"
    async with world_in(state, durable=True, engine_wait=timedelta(seconds=20)) as world:
        ids = await with_app(world)
        token = {role: await world.token(role) for role in ("root", ADMIN, "acme-viewer")}
        facade = requests_of(endpoints((await world("", "GET", "/openapi.json")).json()))
        told: list[str] = []
        async with engines_of(world, ids) as (engine, found):
            async with world.platform.hosting.closed(ids["environments"]):
                harm(database_of(world, ids["environments"]))
            for who in ("", "acme-viewer", ADMIN):
                if who == ADMIN:
                    await shows(world, "DataMissing")
                headers = {"Authorization": f"Bearer {token[who]}"} if who else {}
                for http, each in [(engine, each) for each in found] + [(world.http, each) for each in facade]:
                    if each.method == "DELETE" and "{environmentId}" not in each.path:
                        continue  # the tenant and its environment stay
                    json = {"username": "ann", "password": PASSWORD} if each.method in ("POST", "PUT", "PATCH") else None
                    answer = await http.request(each.method, filled(each, ids), headers=headers, json=json)
                    told.append(f"{answer.status_code} {each.method} {each.path}: {answer.text}")
    assert [each for each in told if str(state) in each or "a state" in each or str(tmp_path) in each] == []
    assert any(each.startswith("50") for each in told), "something noticed the damage"
