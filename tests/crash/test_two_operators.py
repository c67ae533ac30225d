"""Two operators act on one store at once, with clocks an hour apart: the end is that of one."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenantry.runtime.clock import now
from tests.campaigns.scale import at_full
from tests.campaigns.tried import Tried
from tests.crash.faulty_feed import FaultyFeed
from tests.crash.watched_platform import Cluster, CountingPassPorts, Watched, sharing
from tests.support.watched_story import CHAPTERS, tell, told

RUNS = at_full(20, otherwise=2)
APART = timedelta(hours=1)
LAGS_S = (0.0, 0.01, 0.05, 0.2)


async def _both(folder: Path, seed: int) -> tuple[Any, Cluster]:
    """The end of the story as two operators bring it about; the second one's clock is an hour ahead, or behind."""
    chance = random.Random(seed)
    cluster = Cluster(folder / "first")
    async with AsyncExitStack() as held:
        first = await held.enter_async_context(cluster.operator(_feed(cluster, chance)))
        beside = Cluster(folder / "second", cluster.store)
        second = await held.enter_async_context(beside.operator(_feed(cluster, chance)))
        _share(first, second, cluster.made)
        cycle = second.platform.runtime._cycle
        ahead = APART if chance.random() < 0.5 else -APART
        cycle._now = second.platform.runtime._now = lambda: now() + ahead
        for chapter in CHAPTERS:
            await cluster.declare(told(chapter))
            await first.settled()
            await second.settled()
            await first.settled()
        end = await first.portrait()
    return end, cluster


def _feed(cluster: Cluster, chance: random.Random) -> FaultyFeed:
    return FaultyFeed(cluster.store, lag_s=chance.choice(LAGS_S))


def _share(first: Watched, second: Watched, made: Counter[str]) -> None:
    """Engines are outside of both."""
    second.platform.runtime._cycle._ports = CountingPassPorts(sharing(second.platform.ports, first), made)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RUNS))
async def test_two_operators_at_once_come_to_the_end_of_one(number: int, tmp_path: Path, tried: Tried) -> None:
    reference, _ = await tell(tmp_path / "reference")
    end, cluster = await _both(tmp_path, number)
    for part in ("objects", "engines"):
        assert end[part] == reference[part], f"{part}, run {number}"
    operations = (await cluster.store.list("Operation"))[0]
    created = [each["spec"] for each in operations if each["spec"]["action"].startswith("CREATE_")]
    made = Counter((spec["action"], spec["target"]["uid"]) for spec in created)
    assert set(made.values()) == {1}, f"run {number}: {made}"
    live = (await cluster.store.list("Environment"))[0]
    assert cluster.engines() == sorted(each["metadata"]["uid"] for each in live), f"run {number}"
    tried()
