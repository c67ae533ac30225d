"""The work of one of several operators: what begins and ends when shards are taken and given."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import cast

import pytest

from tenantry.hosts.shared_work import Background, SharedWork
from tenantry.hosts.supervision import Works
from tenantry.model.resource import Ref
from tenantry.model.sharding.shards import PLATFORM, HeldShards, Owns, shard_of
from tenantry.model.verdicts import Halt, Transient
from tenantry.runtime.reconcile.loop import Runtime
from tests.support.waiting import eventually

COUNT = 4
OBJECTS = [Ref("Region", "", "eu"), *(Ref("App", f"tenant-{number}", "crm") for number in range(20))]


class Noted:
    """The loop and the fetches, which only note what they are asked for."""

    def __init__(self) -> None:
        self.told: list[tuple[str, frozenset[int]]] = []
        self.looked = True
        self.running: set[str] = set()
        self.begun: Counter[str] = Counter()
        self.refuses = False

    def take_over(self, covers: Owns) -> None:
        self._note("take", covers)

    async def hand_over(self, covers: Owns) -> None:
        assert "slices" not in self.running, "it ends first"
        self._note("give", covers)

    async def prepare(self) -> None:
        if self.refuses:
            raise Halt(Transient("Away", "not now"))
        self.told.append(("prepare", frozenset()))

    def works(self, *names: str) -> Works:
        async def work(name: str) -> None:
            self.running.add(name)
            self.begun[name] += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.running.remove(name)

        return {name: partial(work, name) for name in names}

    def _note(self, what: str, covers: Owns) -> None:
        self.told.append((what, frozenset(shard_of(each, COUNT) for each in OBJECTS if covers(each))))


class Story:
    def __init__(self) -> None:
        self.noted, self.held = Noted(), HeldShards()
        self.work = SharedWork(
            cast(Runtime, self.noted),
            self.noted,
            self.held,
            Background(self.noted.works("events"), self.noted.works("slices"), self.noted.works("guard")),
            self.noted.prepare,
        )

    async def take(self, *shards: int) -> None:
        self.held.hold(COUNT, self.held.held | set(shards))
        await self.work.take(frozenset(shards))

    async def give(self, *shards: int) -> None:
        self.held.hold(COUNT, self.held.held - set(shards))
        await self.work.give(frozenset(shards))

    async def runs(self, *names: str) -> None:
        await eventually(lambda: self.noted.running == set(names))


@pytest.fixture
def story() -> Story:
    return Story()


async def test_background_work_follows_the_shards(story: Story) -> None:
    await story.take(1, 2)
    await story.runs("events", "slices")
    await story.take(PLATFORM)
    await story.runs("events", "slices", "guard")
    await story.give(PLATFORM, 1)
    await story.runs("events", "slices")
    await story.give(2)
    await story.runs("events")
    await story.take(3)
    await story.runs("events", "slices")
    await story.work.stop()
    await story.runs()


async def test_work_that_goes_by_the_shards_begins_anew_with_each_change_and_other_work_does_not(story: Story) -> None:
    for change in (story.take(PLATFORM, 1), story.take(2), story.give(1)):
        await change
        await story.runs("events", "slices", "guard")
    assert story.noted.begun == {"events": 1, "slices": 3, "guard": 1}
    await story.work.stop()


async def test_passes_and_fetches_are_given_and_passes_taken(story: Story) -> None:
    await story.take(1, 2)
    await story.give(2)
    assert story.noted.told == [("take", frozenset({1, 2})), ("give", frozenset({2})), ("give", frozenset({2}))]
    await story.work.stop()


async def test_the_platform_is_prepared_before_its_objects_are_reconciled(story: Story) -> None:
    await story.take(PLATFORM, 3)
    assert story.noted.told == [("prepare", frozenset()), ("take", frozenset({0, 3}))]
    await story.work.stop()


async def test_what_cannot_be_prepared_is_not_taken(story: Story) -> None:
    story.noted.refuses = True
    with pytest.raises(Halt):
        await story.take(PLATFORM)
    assert story.noted.told == []


async def test_a_replica_has_looked_at_its_objects_when_its_loop_has(story: Story) -> None:
    for looked in (True, False):
        story.noted.looked = looked
        assert story.work.looked == looked
