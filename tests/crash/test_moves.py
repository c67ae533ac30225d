"""A move whose operator or pod ends at each request of its steps: no row is lost, and one place at most is written.

A commit tries a third of the requests, a ninth where a server takes part, and another commit others; with
`TENANTRY_CAMPAIGN=full` it tries all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns.scale import at_full
from tests.support.moving import ON_SERVER, POD, Killed, MovingWorld, ServerOf, moving_world, nothing
from tests.support.turns import turn

pytestmark = pytest.mark.slow
STEP = at_full(1, otherwise=3)
STEP_ON_SERVER = at_full(1, otherwise=9)
"""A move to a server or from it takes several times as long."""


def every(*places: str) -> Iterator[int]:
    """The numbers of requests that are tried in a move between those places."""
    step = STEP_ON_SERVER if set(places) & set(ON_SERVER) else STEP
    return count(turn("requests of a move", step), step)


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
        if answer.status_code == 201:
            self.kept.append(name)
        else:
            self.refused.append(answer)
        assert set(self.kept) <= set(await self.world.rows(self.token, self.mark)), f"reads go on, {told}"
        if self.at == len(self.seen) - 1:
            raise Killed(told)


@pytest.mark.parametrize(("origin", "target"), [("a", "b"), ("a", POD), ("a", "s"), ("s", "a"), ("s", POD)])
async def test_reads_go_on_and_writes_are_refused_with_a_reason(
    tmp_path: Path, server_of: ServerOf, origin: str, target: str
) -> None:
    async with moving_world(tmp_path, server=server_of(origin, target), pool=origin) as world:
        token = await world.sign_in()
        world.strike = doom = Doom(world, token, None)
        await world.declare(target)
        await world.settle()
        assert await world.rows(token) == sorted(doom.kept)
        assert {answer.status_code for answer in doom.refused} == {503}
        first = doom.refused[0]
        assert (first.headers["Retry-After"], "reasons/#moving" in first.headers["Link"].lower()) == ("1", True), first.headers


BETWEEN = {
    "pools": ("b", "a"),
    "a pod and a pool": (POD, "a"),
    "a server and a volume": ("s", "a"),
    "servers": ("t", "s"),
    "a pod and a server": (POD, "s"),
}


@pytest.mark.parametrize("names", BETWEEN.values(), ids=BETWEEN)
async def test_the_operator_is_killed_at_every_request(tmp_path: Path, server_of: ServerOf, names: tuple[str, str]) -> None:
    async with moving_world(tmp_path, server=server_of(*names), pool=names[1]) as world:
        token, kept = await world.sign_in(), list[str]()
        for tried, struck in enumerate(every(*names)):
            world.strike = doom = Doom(world, token, struck, f"{struck}-")
            target, origin = names[tried % 2], names[1 - tried % 2]
            await world.declare(target)
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
            assert world.spaces_of_host() == [world.space(target)]
            assert await world.writable(token, f"{struck}-end") == [world.space(target)]
            kept.append(f"{struck}-end-{world.space(target)}")
            assert not world.holds(origin)
        assert struck > 20


@pytest.mark.parametrize("other", ["b", POD, "s"])
async def test_all_places_start_anew_at_every_request(tmp_path: Path, server_of: ServerOf, other: str) -> None:
    async with moving_world(tmp_path, server=server_of(other), pool="a") as world:
        token, kept, seen, restarted = await world.sign_in(), list[str](), 0, True
        requests = every(other)
        struck = next(requests)

        async def restart(told: str) -> None:
            nonlocal seen, restarted
            seen += 1
            if seen - 1 == struck:
                await world.restart_places()
                restarted = True
                assert await world.rows(token) == sorted(kept), f"reads go on, {told}"

        while restarted:
            restarted = False
            for target in (other, "a"):
                seen, world.strike = 0, restart
                await world.declare(target)
                await world.settle()
                world.strike = nothing
                assert await world.add_row(token, f"{struck}-{target}") == 201
                kept.append(f"{struck}-{target}")
            struck = next(requests)
        assert struck > 10


async def test_the_operator_is_killed_after_every_write_to_the_cluster(tmp_path: Path) -> None:
    async with moving_world(tmp_path, pool="a") as world:
        token, kept, struck, written, ended = await world.sign_in(), list[str](), 0, 0, True

        def end(method: str, path: str) -> None:
            nonlocal written, ended
            if method != "GET":
                written += 1
                if written - 1 == struck:
                    ended = True
                    raise Killed(f"{method} {path}")

        while ended:
            ended = False
            for target in (POD, "a"):
                written, world.there.api.after = 0, end
                await world.declare(target)
                with suppress(Killed):
                    await world.settle()
                world.there.api.after = lambda method, path: None
                world.restart()
                await world.settle()
                assert await world.add_row(token, f"{struck}-{target}") == 201
                kept.append(f"{struck}-{target}")
                assert await world.rows(token) == sorted(kept)
                assert world.spaces_of_host() == [world.space(target)]
            struck += 1
        assert struck > 3
