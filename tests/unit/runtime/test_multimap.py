from __future__ import annotations

import random
from collections import defaultdict

import pytest

from tenantry.runtime.multimap import Multimap, trimmed

MANY = 5_000


@pytest.mark.parametrize("seed", range(20))
def test_it_holds_what_was_added_and_not_discarded(seed: int) -> None:
    choice, map_, model = random.Random(seed), Multimap[str, tuple[str, int]](), defaultdict[str, list[tuple[str, int]]](list)
    for _ in range(500):
        key, value = choice.choice("abcd"), ("v", choice.randrange(6))
        if choice.random() < 0.5:
            map_.add(key, value)
            model[key] += [] if value in model[key] else [value]
        else:
            map_.discard(key, value)
            model[key] = [each for each in model[key] if each != value]
        assert {each: list(map_.get(each)) for each in "abcd"} == {each: model[each] for each in "abcd"}
        assert ([each for each in "abcd" if each in map_], len(map_)) == (
            [each for each in "abcd" if model[each]],
            sum(map(bool, model.values())),
        )


def test_a_value_is_found_among_many_and_among_one() -> None:
    map_ = Multimap[str, int]()
    for value in (1, 1, 2):
        map_.add("a", value)
    map_.add("b", 3)
    assert (2 in map_.get("a"), 3 in map_.get("b"), 1 in map_.get("b"), 1 in map_.get("c")) == (True, True, False, False)


@pytest.mark.parametrize("key", ["one", "each its own"])
def test_room_is_given_back_when_most_has_gone(key: str) -> None:
    map_ = Multimap[str, int]()
    names = ["one" if key == "one" else str(number) for number in range(MANY)]
    for number, name in enumerate(names):
        map_.add(name, number)
    for number, name in enumerate(names[: MANY - 2]):
        map_.discard(name, number)
    held = map_._held if key != "one" else map_.get("one")
    assert (len(held), held.__sizeof__() < 4096) == (2, True)


def test_a_dict_that_is_full_is_left_as_it_is() -> None:
    held = dict.fromkeys(range(MANY))
    assert trimmed(held) is held
