"""An engine moves to the place that is declared: people keep their rows, tokens and address, and it is written in one place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.overlay.deployer import OverlayDeployer
from tests.support.moving import ID, Killed, moving_world, nothing
from tests.support.pools import OTHER_SPEC, sent

FROM: dict[str, dict[str, Any]] = {"a pool": {"pool": "a"}, "a pod of its own": {"placement": "Dedicated"}}


@pytest.mark.slow
@pytest.mark.parametrize("origin", FROM.values(), ids=FROM.keys())
async def test_rows_tokens_and_address_stay(tmp_path: Path, origin: dict[str, Any]) -> None:
    async with moving_world(tmp_path, **origin) as world:
        token = await world.sign_in()
        assert [await world.add_row(token, name) for name in ("one", "two")] == [201, 201]
        before = world.environment.status
        await world.declare(pool="b")
        await world.settle()
        after = world.environment.status
        assert after.engine is not None
        assert (after.engine.pool, after.move, after.url) == (world.pool("b"), None, before.url)
        assert world.spaces_of_host() == [f"env-{world.pool('b')}"]
        assert await world.rows(token) == ["one", "two"]
        assert await world.add_row(token, "three") == 201
        assert world.operations[-1] == ("MOVE_ENVIRONMENT", "COMPLETED", "SUCCESS")
        assert ID not in str(list((tmp_path / "a" / "data" / "engines").iterdir()))


@pytest.mark.slow
async def test_a_plan_names_the_move_and_moves_nothing(tmp_path: Path) -> None:
    async with moving_world(tmp_path, pool="a") as world:
        world.restart(lambda deployer: OverlayDeployer(deployer, lambda: datetime.now(UTC)))
        await world.declare(pool="b")
        (change,) = (await world.reconcile()).changes
        assert str(change).startswith(
            "environment dev: move from pool a to pool b: keep a place there, copy the data, then refuse"
        )
        assert not list((tmp_path / "b" / "data" / "engines").glob(f"{ID}*"))
        assert world.spaces_of_host() == [f"env-{world.pool('a')}"]


@pytest.mark.slow
async def test_a_full_pool_says_so_and_the_engine_serves_where_it_is(tmp_path: Path) -> None:
    async with moving_world(tmp_path, capacity=1, pool="a") as world:
        token = await world.sign_in()
        await world.pools_client.deploy(replace(OTHER_SPEC, pool=world.pool("b")), await sent())
        await world.declare(pool="b")
        await world.reconcile()
        assert world.told.startswith("PoolFull: the pool holds 1 engines")
        assert await world.add_row(token, "one") == 201
        await world.declare(pool="a")
        await world.settle()
        assert await world.rows(token) == ["one"]


@pytest.mark.slow
async def test_the_environment_of_a_move_can_be_deleted(tmp_path: Path) -> None:
    async with moving_world(tmp_path, pool="a") as world:

        async def before_the_switch(told: str) -> None:
            if told.startswith("before ") and told.endswith(" freeze"):
                raise Killed

        world.strike = before_the_switch
        await world.declare(pool="b")
        with pytest.raises(Killed):
            await world.settle()
        assert world.environment.status.move is not None
        world.strike = nothing
        world.restart()
        await world.writes.delete(world.environment.held)
        await world.reconcile()
        held = [each for name in ("a", "b") for each in (tmp_path / name / "data" / "engines").glob(f"{ID}*")]
        assert (held, world.spaces_of_host()) == ([], [])
