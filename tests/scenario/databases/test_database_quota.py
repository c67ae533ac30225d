"""The database of an engine at its limit: nothing makes it larger, reads and deletions go on, and room is used again."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tenantry.engine.data.row_access import RowAccess
from tenantry.engine.database import size_of
from tenantry.engine.quota import EngineQuota, Limits
from tenantry.engine.service import Engine
from tenantry.model.quotas import QuotaReached
from tenantry.packages.build import build
from tests.scenario.data_world import DATA, MANIFEST, engine_with_app, signed_in
from tests.scenario.postgres import database_url

NOTE = random.Random(1).randbytes(30_000).hex()
ROWS = [{"region": "eu", "code": str(number), "note": NOTE} for number in range(20)]


@dataclass
class World:
    """An engine with an app, and its limits, which may change."""

    engine: Engine
    client: httpx.AsyncClient
    limits: Limits = field(default_factory=Limits)
    refused: list[str] = field(default_factory=list)

    async def size(self) -> int:
        return await self.engine._transactions.read(size_of, int)

    async def fill(self) -> httpx.Response:
        """Insert rows until it is refused."""
        for number in range(1000):
            answer = await self.client.post(f"{DATA}/kinds", json={"region": "us", "code": str(number), "note": NOTE})
            if answer.status_code != 201:
                return answer
        raise AssertionError("nothing was refused")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    async with engine_with_app(tmp_path, url) as (engine, at), signed_in(at, "ed") as client:
        world = World(engine, client)
        assert isinstance(engine.rows, RowAccess)
        engine.rows._quota = engine._installs._quota = EngineQuota(lambda: world.limits, world.refused.append)
        yield world


async def test_an_insert_beyond_the_limit_is_refused_whole_and_says_what_to_do(world: World) -> None:
    before = await world.size()
    world.limits = Limits(database=before + 200_000)
    refused = await world.client.post(f"{DATA}/kinds", json=ROWS)
    assert refused.status_code == 507
    assert refused.headers["Tenantry-Quota"] == "databaseStorage"
    assert "quota.databaseStorage is reached: " in refused.json()["error"]
    assert "delete rows" in refused.json()["error"]
    assert (await world.client.get(f"{DATA}/kinds")).json() == []
    assert world.refused == ["databaseStorage"]


async def test_a_change_beyond_the_limit_is_refused_and_the_row_stays(world: World) -> None:
    row = {"region": "eu", "code": "1", "note": "short"}
    assert (await world.client.post(f"{DATA}/kinds", json=row)).status_code == 201
    world.limits = Limits(database=await world.size())
    assert (
        await world.client.patch(f"{DATA}/kinds/eu,1", json={"extra": [random.Random(2).randbytes(500_000).hex()]})
    ).status_code == 507
    assert (await world.client.get(f"{DATA}/kinds/eu,1")).json()["note"] == "short"


async def test_at_the_limit_rows_are_read_and_deleted_and_sign_in_works(world: World) -> None:
    world.limits = Limits(database=await world.size() + 200_000)
    assert (await world.fill()).status_code == 507
    assert (await world.client.get(f"{DATA}/kinds/us,0")).status_code == 200
    assert (await world.client.delete(f"{DATA}/kinds/us,0")).status_code == 204
    assert (await world.client.get("/api/v1/auth/me")).status_code == 200


@pytest.mark.slow
async def test_the_room_of_deleted_rows_is_used_again(world: World, request: pytest.FixtureRequest) -> None:
    if "postgresql" in request.node.name:
        pytest.skip("only a vacuum frees room there")
    world.limits = Limits(database=await world.size() + 200_000)
    assert (await world.fill()).status_code == 507
    assert (await world.client.delete(f"{DATA}/kinds/us,0")).status_code == 204
    again = await world.client.post(f"{DATA}/kinds", json={"region": "us", "code": "0", "note": NOTE})
    assert again.status_code == 201


async def test_a_limit_below_what_is_used_refuses_growth_alone_and_a_higher_one_counts_at_once(world: World) -> None:
    world.limits = Limits(database=1)
    assert (await world.fill()).status_code == 507
    world.limits = Limits(database=1 << 40)
    assert (await world.client.post(f"{DATA}/kinds", json=ROWS)).status_code == 201


async def test_an_install_beyond_the_limit_changes_nothing(world: World, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "app.yaml").write_text(MANIFEST.replace("id: crm", "id: other"))
    build(tmp_path / "other", tmp_path / "other.tapp")
    world.limits = Limits(database=1)
    with pytest.raises(QuotaReached):
        await world.engine.publish(tmp_path / "other.tapp")
    assert [(app.id, app.installed) for app in await world.engine.apps()] == [("crm", True), ("other", False)]
    world.limits = Limits()
    await world.engine.install("other", "1.0.0")
