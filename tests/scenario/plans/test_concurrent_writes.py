"""Many writes of one object at once, through one replica and through two: each has its own Operation, with its true result."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.model.resource import Ref
from tests.scenario.rest_world import BASE, PASSWORD, World, declare, world_in
from tests.support.patience import DEADLINE_S
from tests.support.published_packages import package

ADMIN = "acme-admin"
REPLICAS = pytest.mark.parametrize("replicas", [1, 2])
Send = Callable[..., Any]


@asynccontextmanager
async def tenant_of(state: Path, replicas: int, durable: bool = True) -> AsyncIterator[tuple[World, str, Send]]:
    """A platform with an environment, its id, and a way to send requests to each replica of the api in turn."""
    async with world_in(state, durable=durable) as world, AsyncExitStack() as stack:
        await world.tenant("acme")
        id_ = (await world.environment("acme", "dev"))["environment"]["id"]
        clients = [world.http]
        for _ in range(replicas - 1):
            transport = httpx.ASGITransport(create_app(world.platform.facade), raise_app_exceptions=False)
            clients.append(await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60)))
        turn, token = count(), await world.token(ADMIN)

        async def send(method: str, path: str, **options: Any) -> httpx.Response:
            client = clients[next(turn) % replicas]
            return await client.request(method, path, headers={"Authorization": f"Bearer {token}"}, **options)

        yield world, id_, send


async def operations(world: World, action: str) -> list[dict[str, Any]]:
    await world.platform.converged()
    return [one for one in (await world(ADMIN, "GET", "/operations")).json() if one["actionType"] == action]


def results(found: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["status"], one["result"]) for one in found}


@pytest.mark.slow
@REPLICAS
async def test_forty_uploads_at_once_are_all_stored(tmp_path: Path, replicas: int) -> None:
    versions = [f"1.{number}.0" for number in range(40)]
    async with tenant_of(tmp_path, replicas) as (world, id_, send):
        at = f"/engines/{id_}/api/v1/admin/apps"
        answers = await asyncio.gather(*(send("POST", f"{at}/upload", **package(each)) for each in versions))
        assert [(each.status_code, each.text) for each in answers if each.status_code != 200] == []
        listed = (await world(ADMIN, "GET", at)).json()["data"][0]["availableVersions"].split(",")
        assert sorted(listed) == sorted(versions)
        uploads = await operations(world, "UPLOAD_APP")
        assert results(uploads) == {("COMPLETED", "SUCCESS")}
        assert len(uploads) == 40


@pytest.mark.slow
@REPLICAS
async def test_apps_and_identities_mixed_are_all_there(tmp_path: Path, replicas: int) -> None:
    async with tenant_of(tmp_path, replicas) as (world, id_, send):
        at = f"/engines/{id_}/api/v1/admin"
        people = [{"username": f"person-{number}", "password": PASSWORD} for number in range(10)]
        answers = await asyncio.gather(
            *(send("POST", f"{at}/apps/publish", **package(f"1.{number}.0")) for number in range(10)),
            *(send("POST", f"{at}/identities", json=each) for each in people),
        )
        assert [(each.status_code, each.text) for each in answers if each.status_code != 200] == []
        assert results(await operations(world, "INSTALL_APP")) == {("COMPLETED", "SUCCESS")}
        assert len(await operations(world, "INSTALL_APP")) == 10
        identities = await operations(world, "APPLY_IDENTITY")
        assert (len(identities), results(identities)) == (10, {("COMPLETED", "SUCCESS")})
        held = {one["username"] for one in (await world(ADMIN, "GET", f"{at}/identities")).json()["data"]}
        assert held == {"admin", *(each["username"] for each in people)}


@pytest.mark.slow
@REPLICAS
async def test_twenty_edits_of_one_environment_have_an_operation_each(tmp_path: Path, replicas: int) -> None:
    async with tenant_of(tmp_path, replicas) as (world, id_, send):
        names = [f"Name {number}" for number in range(20)]
        answers = await asyncio.gather(*(send("PUT", f"/api/v1/environments/{id_}", json={"name": each}) for each in names))
        assert {each.status_code for each in answers} == {200}
        updates = await operations(world, "UPDATE_ENVIRONMENT")
        assert results(updates) == {("COMPLETED", "SUCCESS")}
        assert len(updates) == 20
        assert (await world(ADMIN, "GET", f"/environments/{id_}")).json()["name"] in names


@pytest.mark.slow
@REPLICAS
async def test_installs_that_take_turns_are_each_carried_out(tmp_path: Path, replicas: int) -> None:
    async with tenant_of(tmp_path, replicas) as (world, id_, send):
        at = f"/engines/{id_}/api/v1/admin/apps"
        for version in ("1.0.0", "1.1.0"):
            await world(ADMIN, "POST", f"{at}/publish", **package(version))
        wanted = ["1.0.0", "1.1.0"] * 5
        answers = await asyncio.gather(*(send("POST", f"{at}/crm/install/{each}") for each in wanted))
        assert [(each.status_code, each.text) for each in answers if each.status_code != 200] == []
        found = await operations(world, "INSTALL_APP")
        assert results(found) == {("COMPLETED", "SUCCESS")}


async def late_environment(world: World) -> str:
    """The id of an environment whose engine comes once the region `later` is declared."""
    await world.tenant("acme")
    await declare(world.platform, "Environment", "late", {"region": "later"}, "tenant-acme")
    await world.platform.converged()
    return str((await world(ADMIN, "GET", "/environments")).json()[0]["id"])


@pytest.mark.slow
async def test_uploads_that_wait_for_the_engine_are_each_recorded_as_stored(tmp_path: Path) -> None:
    """While the engine is not there, passes end without it: all that was declared until then comes at once."""
    async with world_in(tmp_path) as world:
        id_ = await late_environment(world)
        at = f"/engines/{id_}/api/v1/admin/apps"
        waiting = [asyncio.create_task(world(ADMIN, "POST", f"{at}/upload", **package(f"1.{n}.0"))) for n in range(8)]
        async with asyncio.timeout(DEADLINE_S):
            while world.platform.state.cache.count("Operation", by="actionType=UPLOAD_APP") < len(waiting):
                await asyncio.wait(waiting, timeout=0.05)
        edited = await world(ADMIN, "PUT", f"/environments/{id_}", json={"name": "Late"})
        assert edited.status_code == 200, edited.text
        await declare(world.platform, "Region", "later", {})
        answers = await asyncio.gather(*waiting)
        assert {each.status_code for each in answers} == {200}, [each.text for each in answers]
        assert sorted(one["result"] for one in await operations(world, "UPLOAD_APP")) == ["SUCCESS"] * 8
        assert {one["result"] for one in await operations(world, "CREATE_ENVIRONMENT")} == {"SUCCESS"}


@pytest.mark.slow
async def test_an_install_keeps_its_turn_while_its_package_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with tenant_of(tmp_path, 1) as (world, id_, send):
        kinds = world.platform.runtime._cycle._kinds
        package_kind = kinds["Package"]

        async def late(resource: Any, seen: Any) -> Any:
            await asyncio.sleep(0.3)  # the pass of the App comes first
            return await package_kind.observe(resource, seen)

        monkeypatch.setitem(kinds, "Package", dataclasses.replace(package_kind, observe=late))
        at = f"/engines/{id_}/api/v1/admin/apps/publish"
        answers = await asyncio.gather(*(send("POST", at, **package(each)) for each in ("1.0.0", "1.1.0", "1.2.0")))
        assert [(each.status_code, each.text) for each in answers if each.status_code != 200] == []


async def test_an_install_that_a_newer_one_replaced_before_its_turn_is_a_conflict(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        id_ = await late_environment(world)
        at = f"/engines/{id_}/api/v1/admin/apps"
        waiting = []
        async with asyncio.timeout(DEADLINE_S):
            for turn, version in enumerate(("1.0.0", "1.1.0"), 1):
                waiting.append(asyncio.create_task(world(ADMIN, "POST", f"{at}/publish", **package(version))))
                while world.platform.state.cache.count("Operation", by="actionType=INSTALL_APP") < turn:
                    await asyncio.wait(waiting, timeout=0.05)
        await declare(world.platform, "Region", "later", {})
        first, second = await asyncio.gather(*waiting)
        assert second.status_code == 200, second.text
        assert first.status_code == 409, first.text
        assert "replaced by a newer change" in first.json()["error"]


@pytest.mark.slow
@pytest.mark.parametrize("names", [("left", "right"), ("right", "left")], ids=["elder first", "younger first"])
async def test_of_two_tenants_that_come_to_want_one_slug_one_holds_it(tmp_path: Path, names: tuple[str, str]) -> None:
    """The second edit comes a little later each turn: while the pass of the first looks, writes, and has ended."""
    async with world_in(tmp_path, durable=True) as world:
        writing = world.platform.state.writing
        for name in ("left", "right"):
            await declare(world.platform, "Tenant", name, {})
            await world.platform.converged()
        for turn in range(40):
            wanted = [await writing.get(Ref("Tenant", "", name)) for name in names]
            edits = [{**each, "spec": {"slug": f"prize-{turn}"}} for each in wanted]
            first = asyncio.create_task(writing.replace(edits[0], edits[0]["metadata"]["resourceVersion"]))
            for _ in range(turn):
                await asyncio.sleep(0)
            await asyncio.gather(first, writing.replace(edits[1], edits[1]["metadata"]["resourceVersion"]))
            await world.platform.converged()
            told = [await writing.get(Ref("Tenant", "", name)) for name in names]
            held = [each["status"].get("slug") for each in told]
            assert sorted(slug == f"prize-{turn}" for slug in held) == [False, True], turn
            assert None not in held, "who lost it keeps the slug before"
