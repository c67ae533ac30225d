"""The age of what pages show: the store is asked while somebody reads, and only then."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tenantry.console.reading import freshness
from tenantry.console.reading.freshness import Freshness
from tenantry.model.verdicts import Forbidden, Halt, NotFound, Transient
from tests.support.patience import DEADLINE_S
from tests.support.waiting import eventually

START = datetime(2026, 11, 23, 8, tzinfo=UTC)


class World:
    """A store and its clock."""

    def __init__(self) -> None:
        self.answer: Exception | None = None
        self.hangs = False
        self.broken: datetime | None = None
        self.looks = 0
        self.time = START
        self.freshness = Freshness(self.confirm, lambda: self.broken, lambda: self.time)
        self.news = asyncio.Event()
        self.freshness.listen(self.news.set)

    async def confirm(self) -> None:
        self.looks += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.answer is not None:
            raise self.answer

    async def pass_on(self, seconds: float) -> None:
        """Let time go on, and a look happen that began after it."""
        self.time += timedelta(seconds=seconds)
        self.freshness.reading()
        seen = self.looks
        await eventually(lambda: self.looks >= seen + 2)  # the first may have begun before


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(freshness, "EVERY_S", 0.005)
    monkeypatch.setattr(freshness, "ANSWERS_S", 0.02)
    return World()


AWAY = Halt(Transient("Unreachable", "no answer"))


@pytest.mark.slow
async def test_a_store_that_fails_makes_data_old_from_the_last_answer_on(world: World) -> None:
    await world.pass_on(5)
    world.answer = AWAY
    await world.pass_on(2)
    assert world.freshness.old_since is None
    await world.pass_on(2)
    assert world.freshness.old_since == START + timedelta(seconds=5)
    world.answer = None
    world.news.clear()
    async with asyncio.timeout(DEADLINE_S):
        await world.news.wait()
    assert world.freshness.old_since is None


async def test_a_store_that_never_answers_makes_data_old_too(world: World) -> None:
    world.hangs = True
    await world.pass_on(4)
    assert world.freshness.old_since == START


@pytest.mark.parametrize("answer", [NotFound("no"), Forbidden("no")], ids=str)
async def test_a_refusal_is_an_answer(world: World, answer: Halt) -> None:
    world.answer = answer
    await world.pass_on(60)
    assert world.freshness.old_since is None


async def test_data_is_old_while_changes_do_not_arrive_although_the_store_answers(world: World) -> None:
    world.broken = START + timedelta(seconds=50)
    await world.pass_on(60)
    assert world.freshness.old_since == world.broken
    world.broken = None
    await world.pass_on(1)
    assert world.freshness.old_since is None


async def test_nobody_is_asked_while_nobody_reads(world: World) -> None:
    assert world.looks == 0
    await world.freshness.first_look()
    assert world.looks == 1
    world.time += timedelta(seconds=freshness.READ_S + 1)
    task = world.freshness._task
    assert task is not None
    async with asyncio.timeout(DEADLINE_S):
        await task
    seen = world.looks
    assert seen <= 3
    await world.freshness.first_look()
    assert world.looks == seen + 1


async def test_a_page_waits_for_a_hanging_store_only_for_a_moment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "FIRST_S", 0.01)
    monkeypatch.setattr(freshness, "ANSWERS_S", 30.0)
    world.hangs = True
    async with asyncio.timeout(DEADLINE_S):
        await world.freshness.first_look()
    assert world.freshness._task is not None
    world.freshness._task.cancel()
