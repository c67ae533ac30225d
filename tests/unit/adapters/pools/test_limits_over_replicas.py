"""All replicas of a pool together: what they admit, while load comes, goes and moves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import accumulate

import pytest

from tenantry.adapters.pools.shared.asked_rates import COUNTS_S
from tenantry.adapters.pools.shared.buckets import OWN, SharedBuckets
from tenantry.rest.fairness.rates import Rates

UNHEARD = 3
"""Seconds of the limit that are admitted in all before the replicas have heard of one another."""
STEP_S, SECONDS = 0.05, 40
Load = Callable[[float, int], float]
"""Requests in a second by the time and the replica, as parts of the limit."""


class Pool:
    """Replicas that exchange once a second, each at its own moment, with a limit of the engine `e1`."""

    def __init__(self, replicas: int, limit: int) -> None:
        self.now = 0.0
        self.limit = limit
        self.chance = random.Random(7)
        self.all = [SharedBuckets(lambda: self.now) for _ in range(replicas)]
        for each in self.all:
            each.learn({}, {}, replicas)
        self.next = [self.chance.random() for _ in self.all]
        self.table: dict[int, tuple[float, dict[str, float]]] = {}

    def exchange(self, which: int) -> None:
        asked = self.all[which].asked()
        known = [rates for other, (at, rates) in self.table.items() if other != which and at > self.now - COUNTS_S]
        self.table[which] = self.now, asked
        others = {engine: [rates[engine] for rates in known if engine in rates] for engine in asked}
        self.all[which].learn(asked, others, len(self.all))

    def run(self, load: Load, seconds: float = SECONDS) -> Iterator[list[tuple[int, int]]]:
        """Yield for each step what is asked of each replica, and what it admits. Requests come by chance."""
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            for which, at in enumerate(self.next):
                if at <= self.now:
                    self.exchange(which)
                    self.next[which] += 1
            yield [self._step(which, load(self.now, which) * self.limit * STEP_S) for which in range(len(self.all))]

    def _step(self, which: int, mean: float) -> tuple[int, int]:
        asked, gap = 0, self.chance.expovariate(1)
        while gap < mean:
            asked, gap = asked + 1, gap + self.chance.expovariate(1)
        return asked, sum(self.all[which].take("e1", self.limit) == 0 for _ in range(asked))


def admitted(steps: list[list[tuple[int, int]]]) -> list[int]:
    """The sum over all replicas, in each step."""
    return [sum(each for _, each in step) for step in steps]


def most(steps: list[list[tuple[int, int]]], seconds: float) -> int:
    """The most that is admitted in any time of that length."""
    sums = [0, *accumulate(admitted(steps))]
    width = round(seconds / STEP_S)
    return max(after - before for before, after in zip(sums, sums[width:], strict=False))


LOADS: dict[str, Callable[[int], Load]] = {
    "all of them, three times the limit": lambda n: lambda t, r: 3 / n,
    "half of them, three times the limit": lambda n: lambda t, r: 6 / n * (r < n / 2),
    "one, five times the limit": lambda n: lambda t, r: 5 * (r == 0),
    "another one each second": lambda n: lambda t, r: 5 * (int(t) % n == r),
    "another one every ten seconds": lambda n: lambda t, r: 5 * (int(t / 10) % n == r),
    "bursts of a second at all": lambda n: lambda t, r: 4 * (int(t) % 10 == 0),
    "bursts of three seconds at all": lambda n: lambda t, r: 4 * (int(t / 3) % 3 == 0),
    "one after the other comes and stays": lambda n: lambda t, r: 2 * (t > r),
}


@pytest.mark.parametrize("replicas", [2, 5, 20])
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
@pytest.mark.parametrize("limit", [2, 30])
def test_no_load_gets_more_than_the_limit_and_a_second_of_it_at_each_replica(
    replicas: int, load: Callable[[int], Load], limit: int
) -> None:
    steps = list(Pool(replicas, limit).run(load(replicas)))
    for seconds in (1, 3, 5, 10, 30):
        assert most(steps, seconds) <= limit * (seconds * (1 + OWN) + replicas + UNHEARD), seconds


@pytest.mark.parametrize("replicas", [2, 5, 20])
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_over_a_minute_no_load_gets_more_than_the_limit(replicas: int, load: Callable[[int], Load]) -> None:
    steps = list(Pool(replicas, 30).run(load(replicas), 100))[round(40 / STEP_S) :]
    assert sum(admitted(steps)) <= 60 * 30 * (1 + OWN)


@pytest.mark.parametrize("replicas", [2, 5, 20])
@pytest.mark.parametrize("limit", [2, 30])
def test_a_load_that_stays_is_admitted_at_the_limit_and_each_replica_has_its_part(replicas: int, limit: int) -> None:
    steps = list(Pool(replicas, limit).run(lambda t, r: (4 if r == 0 else 2) / replicas, 150))[round(30 / STEP_S) :]
    total = sum(admitted(steps)) / 120 / limit
    assert total == pytest.approx(1, abs=0.06)
    each = [sum(step[which][1] for step in steps) / 120 / limit * replicas for which in range(replicas)]
    assert min(each) > 0.6 and max(each) < 1.6


@pytest.mark.parametrize("replicas", [2, 5, 20])
@pytest.mark.parametrize("limit", [2, 30])
def test_a_load_below_the_limit_is_admitted_as_by_one_process(replicas: int, limit: int) -> None:
    pool = Pool(replicas, limit)
    alone, total, kept = Rates(lambda: pool.now), 0, 0
    for step in pool.run(lambda t, r: 0.8 / replicas, 60):
        total += sum(each for _, each in step)
        kept += sum(alone.take("", limit) == 0 for asked, _ in step for _ in range(asked))
    assert total >= kept * 0.97


@pytest.mark.parametrize("replicas", [2, 5, 20])
def test_a_burst_at_a_quiet_replica_is_admitted_while_the_others_leave_room(replicas: int) -> None:
    pool = Pool(replicas, 30)
    list(pool.run(lambda t, r: 0.5 / (replicas - 1) * (r > 0), 10))
    assert sum(pool.all[0].take("e1", 30) == 0 for _ in range(30)) == 30
    list(pool.run(lambda t, r: 0.5 / (replicas - 1) * (r > 0), 30))
    steps = list(pool.run(lambda t, r: 0.4 if r == 0 else 0.5 / (replicas - 1), 20))
    asked, got = (sum(step[0][which] for step in steps) for which in (0, 1))
    assert got >= asked * 0.98


@pytest.mark.parametrize("replicas", [2, 5, 20])
def test_the_share_of_a_replica_that_died_comes_to_the_others(replicas: int) -> None:
    pool = Pool(replicas, 30)
    list(pool.run(lambda t, r: 2, 10))
    pool.next[1:] = [1e9] * (replicas - 1)
    steps = list(pool.run(lambda t, r: 2 * (r == 0), COUNTS_S + 12))
    assert sum(admitted(steps)[-round(10 / STEP_S) :]) == pytest.approx(300, abs=10)
