"""A move that is killed at every request between its steps: no row is lost, and the engine is written in one place at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.moving import ID, Killed, MovingWorld, moving_world, nothing

pytestmark = pytest.mark.slow


class Doom:
    """Ends the operator at one of its requests, None: at none. Before that, a person writes a row and reads all at each.

    kept: the rows that were acknowledged; refused: the answers to the others.
    """

    def __init__(self, world: MovingWorld, token: str, at: int | None, mark: str = "") -> None:
        self.world, self.token, self.at, self.mark = world, token, at, mark
        self.kept: list[str] = []
        self.refused: list[Any] = []
        self.seen: list[str] = []

    async def __call__(self, told: str) -> None:
        name = f"{self.mark}{len(self.seen)}"
        self.seen.append(told)
        answer = await self.world.post_row(self.token, name)
        (self.kept if answer.status_code == 201 else self.refused).append(name if answer.status_code == 201 else answer)
        assert set(self.kept) <= set(await self.world.rows(self.token, self.mark)), f"reads go on, {told}"
        if self.at == len(self.seen) - 1:
            raise Killed(told)


async def test_reads_go_on_and_writes_are_refused_with_a_reason(tmp_path: Path) -> None:
    async with moving_world(tmp_path, pool="a") as world:
        token = await world.sign_in()
        world.strike = doom = Doom(world, token, None)
        await world.declare(pool="b")
        await world.settle()
        assert await world.rows(token) == sorted(doom.kept)
        assert {answer.status_code for answer in doom.refused} == {503}
        first = doom.refused[0]
        assert (first.headers["Retry-After"], "reasons/#moving" in first.headers["Link"].lower()) == ("1", True), first.headers


async def test_the_operator_is_killed_at_every_request(tmp_path: Path) -> None:
    async with moving_world(tmp_path, pool="a") as world:
        token, kept, struck, names = await world.sign_in(), list[str](), 0, ("b", "a")
        while True:
            world.strike = doom = Doom(world, token, struck, f"{struck}-")
            await world.declare(pool=names[struck % 2])
            try:
                await world.settle()
            except Killed:
                pass
            else:
                break
            world.strike = nothing
            writers = await world.writable(token, f"{struck}-probe")
            assert len(writers) <= 1, doom.seen[-1]
            kept += [*doom.kept, *(f"{struck}-probe-{space}" for space in writers)]
            world.restart()
            await world.settle()
            assert await world.rows(token) == sorted(kept), doom.seen[-1]
            engine = world.environment.status.engine
            assert engine is not None
            assert engine.pool == world.pool(names[struck % 2])
            assert await world.writable(token, f"{struck}-end") == [f"env-{engine.pool}"]
            kept.append(f"{struck}-end-env-{engine.pool}")
            assert not list((tmp_path / names[1 - struck % 2] / "data" / "engines").glob(f"{ID}*"))
            struck += 1
        assert struck > 20
