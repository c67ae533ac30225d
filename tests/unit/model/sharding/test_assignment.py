"""Shards of replicas: equal numbers, few moves, and an end whatever the order of the moves."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from tenantry.model.sharding.assignment import assigned
from tenantry.model.sharding.shards import shard_of_namespace

Held = Mapping[str, frozenset[int]]
NONE = frozenset[int]()
TENANTS = [f"tenant-t{number}" for number in range(10_000)]


def held(**replicas: set[int]) -> dict[str, frozenset[int]]:
    return {name: frozenset(shards) for name, shards in replicas.items()}


@pytest.mark.parametrize(
    "why, count, before, after",
    [
        ("nobody is there", 4, held(), held()),
        ("the first gets all", 4, held(a=set()), held(a={0, 1, 2, 3})),
        ("two that come together share", 4, held(a=set(), b=set()), held(a={0, 1}, b={2, 3})),
        ("the second gets what is above the half", 4, held(a={0, 1, 2, 3}, b=set()), held(a={0, 1}, b={2, 3})),
        ("the third takes one of one", 4, held(a={0, 1}, b={2, 3}, c=set()), held(a={0, 1}, b={2}, c={3})),
        ("of one that has gone, the shards go to who has fewest", 4, held(a={0, 1}, b={2}), held(a={0, 1}, b={2, 3})),
        ("equal numbers stay", 4, held(a={0, 3}, b={1, 2}), held(a={0, 3}, b={1, 2})),
        ("more replicas than shards", 2, held(a={0}, b={1}, c=set()), held(a={0}, b={1}, c=set())),
        ("one shard has one replica", 1, held(a=set(), b={0}), held(a=set(), b={0})),
        ("shards of an earlier, greater number count no more", 2, held(a={0, 5}, b={1, 7}), held(a={0}, b={1})),
    ],
)
def test_shards_are_assigned(why: str, count: int, before: Held, after: Held) -> None:
    assert assigned(count, before) == after, why


@pytest.mark.parametrize("seed", range(40))
def test_all_shards_are_assigned_once_in_numbers_that_differ_by_one(seed: int) -> None:
    rng = random.Random(seed)
    count, replicas = rng.randint(1, 70), [f"r{number}" for number in range(rng.randint(1, 9))]
    some: dict[str, set[int]] = {name: set() for name in replicas}
    for shard in range(count):
        if rng.random() < 0.7:
            some[rng.choice(replicas)].add(shard)
    after = assigned(count, held(**some))
    assert sorted(shard for shards in after.values() for shard in shards) == list(range(count))
    sizes = [len(shards) for shards in after.values()]
    assert max(sizes) - min(sizes) <= 1
    assert assigned(count, after) == after


@pytest.mark.parametrize("seed", range(40))
def test_replicas_that_give_up_and_take_in_any_order_come_to_an_end(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([4, 20, 64])
    now = dict(assigned(count, {f"r{number}": NONE for number in range(rng.randint(1, 6))}))
    for _ in range(rng.randint(0, len(now) - 1)):
        del now[rng.choice(sorted(now))]
    now |= {f"new{number}": NONE for number in range(rng.randint(0, 3))}
    for _ in range(1000):
        if assigned(count, now) == now:
            break
        name = rng.choice(sorted(now))
        due = assigned(count, now)[name]
        taken = NONE.union(*(shards for other, shards in now.items() if other != name))
        now[name] = (now[name] & due) if rng.random() < 0.5 else (due - taken)
    assert assigned(count, now) == now


def moved(before: Held, after: Held, count: int) -> float:
    """The share of tenants whose replica is another one."""
    owner = [{shard: name for name, shards in each.items() for shard in shards} for each in (before, after)]
    shards = (shard_of_namespace(each, count) for each in TENANTS)
    return sum(1 for shard in shards if owner[0].get(shard) != owner[1].get(shard)) / len(TENANTS)


@pytest.mark.parametrize("replicas", range(2, 9))
@pytest.mark.parametrize("count", [20, 32, 64, 256])
def test_few_tenants_move_when_a_replica_comes_or_goes(count: int, replicas: int) -> None:
    """From 20 shards on, for any number of replicas."""
    names = [f"r{number}" for number in range(replicas)]
    fewer = assigned(count, dict.fromkeys(names[:-1], NONE))
    more = assigned(count, {**fewer, names[-1]: NONE})
    assert moved(fewer, more, count) <= 1 / replicas + 0.05
    for gone in names:
        left = {name: shards for name, shards in more.items() if name != gone}
        assert moved(more, assigned(count, left), count) <= 1 / replicas + 0.05


@pytest.mark.parametrize("count, replicas", [(4, 2), (4, 4), (6, 3), (8, 4), (12, 4)])
def test_few_tenants_move_as_well_with_a_multiple_of_the_replicas(count: int, replicas: int) -> None:
    names = [f"r{number}" for number in range(replicas)]
    full = assigned(count, dict.fromkeys(names, NONE))
    for gone in names:
        left = {name: shards for name, shards in full.items() if name != gone}
        assert moved(full, assigned(count, left), count) <= 1 / replicas + 0.05
