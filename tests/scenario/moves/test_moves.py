"""An engine moves to the place that is declared: people keep their rows, tokens and address, and it is written in one place."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.overlay.deployer import OverlayDeployer
from tests.support.moving import ON_SERVER, POD, Killed, MovingWorld, ServerOf, moving_world, nothing
from tests.support.pools import OTHER_SPEC, sent

PLACES: dict[str, dict[str, Any]] = {name: {"pool": name} for name in ("a", *ON_SERVER)} | {POD: {"placement": "Dedicated"}}
WAYS = [("a", "b"), (POD, "b"), ("a", POD), ("a", "s"), ("s", "a"), ("s", "t"), (POD, "s"), ("s", POD)]


@pytest.mark.slow
@pytest.mark.parametrize(("origin", "target"), WAYS)
async def test_rows_tokens_and_address_stay(tmp_path: Path, server_of: ServerOf, origin: str, target: str) -> None:
    async with moving_world(tmp_path, server=server_of(origin, target), **PLACES[origin]) as world:
        token = await world.sign_in()
        assert [await world.add_row(token, name) for name in ("one", "two")] == [201, 201]
        before = world.environment.status
        await world.declare(target)
        await world.settle()
        after = world.environment.status
        assert after.engine is not None
        assert (after.engine.pool, after.move, after.url) == (None if target == POD else world.pool(target), None, before.url)
        assert world.spaces_of_host() == [world.space(target)]
        assert await world.rows(token) == ["one", "two"]
        assert await world.add_row(token, "three") == 201
        assert world.operations[-1] == ("MOVE_ENVIRONMENT", "COMPLETED", "SUCCESS")
        assert not world.holds(origin)
        await world.restart_places()
        assert await world.rows(token) == ["one", "three", "two"]
        await world.declare(origin)
        await world.settle()
        assert await world.rows(token) == ["one", "three", "two"], "and back"
        assert not world.holds(target)


@pytest.mark.slow
async def test_the_pod_that_an_engine_came_to_is_not_restarted(tmp_path: Path) -> None:
    async with moving_world(tmp_path, pool="a") as world:
        pods = []

        async def note(told: str) -> None:
            if told.startswith("before ") and told.endswith(" receive"):
                pods.append(world.workload["spec"]["template"])

        world.strike = note
        await world.declare(POD)
        await world.settle()
        assert pods == [world.workload["spec"]["template"]] * 2
        token = await world.sign_in()
        assert await world.add_row(token, "one") == 201
        await world.restart_pod()
        assert await world.rows(token) == ["one"]


@pytest.mark.slow
async def test_an_engine_serves_where_it_is_until_its_pod_runs(tmp_path: Path) -> None:
    async with moving_world(tmp_path, pool="a") as world:
        token = await world.sign_in()
        world.pods_run = False
        await world.declare(POD)
        for _ in range(4):
            await world.reconcile()
        assert world.told.startswith("Moving: its engine moves from pool a to a pod of its own: it serves where it is until")
        assert await world.add_row(token, "one") == 201
        await world.declare("a")
        await world.reconcile()
        world.pods_run = True
        await world.settle()
        assert (world.environment.status.move, world.holds(POD)) == (None, False)
        assert await world.rows(token) == ["one"]


async def until_before(world: MovingWorld, verb: str, target: str) -> None:
    """Let the operator end right before that command of a move, and begin again."""

    async def end(told: str) -> None:
        if told.startswith("before ") and told.endswith(f" {verb}"):
            raise Killed

    world.strike = end
    await world.declare(target)
    with pytest.raises(Killed):
        await world.settle()
    assert world.environment.status.move is not None
    world.strike = nothing
    world.restart()


@pytest.mark.slow
@pytest.mark.parametrize(("origin", "target"), [("a", "b"), ("a", POD), ("a", "s"), ("s", "a"), ("s", "t")])
@pytest.mark.parametrize("verb", ["freeze", "give", "take"])
async def test_a_move_can_be_given_up_until_it_has_arrived(
    tmp_path: Path, server_of: ServerOf, verb: str, origin: str, target: str
) -> None:
    async with moving_world(tmp_path, server=server_of(origin, target), pool=origin) as world:
        token = await world.sign_in()
        await until_before(world, verb, target)
        await world.declare(origin)
        await world.settle()
        assert await world.add_row(token, "one") == 201
        assert (world.spaces_of_host(), world.holds(target)) == ([world.space(origin)], False)
        assert await world.writable(token, "probe") == [world.space(origin)]


@pytest.mark.slow
async def test_a_plan_names_the_move_and_moves_nothing(tmp_path: Path) -> None:
    async with moving_world(tmp_path, pool="a") as world:
        world.restart(lambda deployer: OverlayDeployer(deployer, lambda: datetime.now(UTC)))
        await world.declare("b")
        (change,) = (await world.reconcile()).changes
        assert str(change).startswith(
            "environment dev: move from pool a to pool b: keep a place there, copy the data, then refuse"
        )
        assert not world.holds("b")
        assert world.spaces_of_host() == [f"env-{world.pool('a')}"]


@pytest.mark.slow
async def test_a_full_pool_says_so_and_the_engine_serves_where_it_is(tmp_path: Path) -> None:
    async with moving_world(tmp_path, capacity=1, pool="a") as world:
        token = await world.sign_in()
        await world.pools_client.deploy(replace(OTHER_SPEC, pool=world.pool("b")), await sent())
        await world.declare("b")
        await world.reconcile()
        assert world.told.startswith("PoolFull: the pool holds 1 engine")
        assert await world.add_row(token, "one") == 201
        await world.declare("a")
        await world.settle()
        assert await world.rows(token) == ["one"]


@pytest.mark.slow
@pytest.mark.parametrize("copy", ["first", "last"])
@pytest.mark.parametrize(("origin", "target"), [("a", "b"), ("s", "b"), ("a", "s")])
async def test_a_pool_without_room_for_the_copy_says_so_and_the_engine_serves_where_it_is(
    tmp_path: Path, server_of: ServerOf, monkeypatch: pytest.MonkeyPatch, origin: str, target: str, copy: str
) -> None:
    """copy: the one that finds no room."""
    real = shutil.disk_usage
    async with moving_world(tmp_path, server=server_of(origin, target), pool=origin) as world:
        token = await world.sign_in()
        if copy == "last":
            await until_before(world, "freeze", target)
        with monkeypatch.context() as full:
            full.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=1 << 10))
            await world.declare(target)
            for _ in range(3):
                await world.reconcile()
            assert world.told.startswith("NoRoomForCopy: there is no room for a copy")
            assert await world.add_row(token, "one") == 201
            assert not any((world.folder / "places").rglob("moving-*"))
        await world.settle()
        assert await world.rows(token) == ["one"]
        assert not world.holds(origin)


@pytest.mark.slow
@pytest.mark.parametrize(("origin", "target"), [("a", "b"), ("a", POD), ("a", "s"), ("s", "t")])
async def test_the_environment_of_a_move_can_be_deleted(tmp_path: Path, server_of: ServerOf, origin: str, target: str) -> None:
    async with moving_world(tmp_path, server=server_of(origin, target), pool=origin) as world:
        await until_before(world, "freeze", target)
        await world.writes.delete(world.environment.held)
        for _ in range(2):
            await world.reconcile()
        assert [world.holds(name) for name in (origin, target)] == [False, False]
        assert world.spaces_of_host() == []
