"""The owner of an Operation stays known when the tenant is gone; filters find Operations and Environments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from tenantry.model.resource import format_time
from tests.scenario.rest_world import World, world_in
from tests.unit.engine.archives import write_package

Found = set[tuple[str, str]]


async def found(world: World, user: str, query: str = "") -> Found:
    """Action and tenant of each Operation that the filter leaves."""
    answer = await world(user, "GET", f"/operations{query}")
    assert answer.status_code == 200, answer.text
    return {(each["actionType"], each["tenantId"]) for each in answer.json()}


async def deleted(world: World, tenant: str) -> None:
    assert (await world("root", "DELETE", f"/tenants/{tenant}", headers={"Prefer": "wait=60"})).status_code == 202


async def test_operations_of_a_deleted_tenant_keep_its_id(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        first = await world.tenant("iso")
        environment = (await world.environment("iso", "dev"))["environment"]["id"]
        await deleted(world, first)
        own = {(each, first) for each in ("CREATE_TENANT", "CREATE_ENVIRONMENT", "DELETE_ENVIRONMENT", "DELETE_TENANT")}
        assert await found(world, "root", f"?tenantId={first}") == own
        world.tokens.clear()
        second = await world.tenant("iso")
        assert second != first
        assert await found(world, "iso-admin") == {("CREATE_TENANT", second)}
        assert await found(world, "iso-admin", f"?tenantId={first}") == set()
        assert await found(world, "iso-admin", f"?environmentId={environment}") == set()
        assert await found(world, "root") == own | {("CREATE_TENANT", second)}
        old = (await world("root", "GET", f"/operations?tenantId={first}&actionType=DELETE_TENANT")).json()
        assert (await world("iso-admin", "GET", f"/operations/{old[0]['id']}")).status_code == 404


async def test_each_filter_leaves_what_it_names_and_all_of_them_hold_at_once(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        acme, globex = await world.tenant("acme"), await world.tenant("globex")
        dev = (await world.environment("acme", "dev"))["environment"]["id"]
        await world.environment("globex", "dev")
        files = {"file": ("crm.tapp", write_package(tmp_path / "crm.tapp").read_bytes())}
        published = await world("acme-admin", "POST", f"/engines/{dev}/api/v1/admin/apps/publish", files=files)
        assert published.status_code == 200, published.text
        inside = {("CREATE_ENVIRONMENT", acme), ("INSTALL_APP", acme)}
        rows = {
            f"?tenantId={acme}": inside | {("CREATE_TENANT", acme)},
            f"?tenantId={globex}": {("CREATE_TENANT", globex), ("CREATE_ENVIRONMENT", globex)},
            "?tenantId=nobody": set(),
            f"?environmentId={dev}": inside,
            "?environmentId=nothing": set(),
            "?actionType=CREATE_TENANT": {("CREATE_TENANT", acme), ("CREATE_TENANT", globex)},
            "?status=RUNNING": set(),
            f"?status=COMPLETED&environmentId={dev}&actionType=INSTALL_APP": {("INSTALL_APP", acme)},
            f"?tenantId={globex}&environmentId={dev}": set(),
            f"?since={format_time(datetime.now(UTC) + timedelta(minutes=1))}": set(),
            f"?environmentId={dev}&since=2026-01-01T00:00:00Z": inside,
            f"?environmentId={dev}&since={quote('2026-01-01T02:00:00+02:00')}": inside,
            "?tenantId=&status=": await found(world, "root"),
        }
        assert {query: await found(world, "root", query) for query in rows} == rows
        assert await found(world, "acme-viewer", f"?environmentId={dev}") == inside
        assert await found(world, "globex-viewer", f"?environmentId={dev}") == set()
        assert await found(world, "globex-viewer", f"?tenantId={acme}") == set()
        page = await world("root", "GET", f"/operations?tenantId={acme}&limit=2")
        assert (len(page.json()), f"tenantId={acme}" in page.headers["Link"]) == (2, True)
        rest = await world("root", "GET", page.headers["Link"].split(">")[0].lstrip("<").removeprefix("/api/v1"))
        assert {each["id"] for each in [*page.json(), *rest.json()]} == {
            each["id"] for each in (await world("root", "GET", f"/operations?tenantId={acme}")).json()
        }


@pytest.mark.parametrize("query", ["actionType=EXPLODE", "status=DONE", "since=yesterday", "since=2026-01-01T00:00:00"])
async def test_a_filter_that_nothing_could_be_is_refused_by_name(tmp_path: Path, query: str) -> None:
    async with world_in(tmp_path) as world:
        answer = await world("root", "GET", f"/operations?{query}")
        assert (answer.status_code, answer.json()["error"].split(":")[0]) == (400, query.split("=")[0])


async def test_a_list_of_environments_can_be_of_one_tenant(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        acme, globex = await world.tenant("acme"), await world.tenant("globex")
        for tenant in ("acme", "globex"):
            await world.environment(tenant, "dev")

        async def listed(user: str, query: str) -> list[str]:
            answer = await world(user, "GET", f"/environments?{query}")
            assert answer.status_code == 200, answer.text
            return [each["tenantId"] for each in answer.json()]

        assert await listed("root", f"tenantId={acme}&limit=5") == [acme]
        assert await listed("root", f"tenantId={globex}") == [globex]
        assert await listed("root", "tenantId=nobody") == []
        assert await listed("acme-admin", f"tenantId={acme}") == [acme]
        assert await listed("acme-admin", f"tenantId={globex}") == []
        await deleted(world, globex)
        assert await listed("root", f"tenantId={globex}") == []
