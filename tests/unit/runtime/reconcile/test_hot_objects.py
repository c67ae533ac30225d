"""Objects that are reconciled although nothing changes: the rule, its memory, and what a pass makes of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from tenantry.model.changes import Change, EnsureNamespace
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Gone, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.runtime.reconcile.hot_objects import BUCKETS, MOST, SLICE_S, HotObjects, has_cooled, is_forgotten, is_hot, is_idle

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DEV = Ref("Environment", "tenant-acme", "dev")
MAKE = EnsureNamespace("tenant-acme", "acme", "uid")
IDLE: dict[str, tuple[Verdict | None, Sequence[Change], bool, bool]] = {
    "Ready, and nothing was done": (Ready(), (), False, True),
    "Ready until a time": (Ready(until=START), (), False, True),
    "Stalled, as before": (Stalled("A", "m"), (), False, True),
    "waits for somebody": (Waiting("A", "m"), (), False, True),
    "waits until a time": (Waiting("A", "m", START), (), False, False),
    "a retry": (Transient("A", "m"), (), False, False),
    "the last pass": (Gone(), (), False, False),
    "nothing to do": (None, (), False, False),
    "something was done": (Ready(), (MAKE,), False, False),
    "the status was written": (Ready(), (), True, False),
}
HOURS = {
    "as often as is in order": ([5, 5, 5, 5, 5, 5], False, False, False),
    "once more": ([5, 5, 5, 5, 5, 6], True, False, False),
    "all at once": ([31], True, False, False),
    "a burst that is nearly over": ([15, 0, 0, 0, 0, 0], False, True, False),
    "the usual resync": ([1, 1, 1, 1, 1, 1], False, True, True),
}


@pytest.mark.parametrize(("verdict", "changes", "wrote", "idle"), IDLE.values(), ids=IDLE)
def test_a_pass_is_idle(verdict: Verdict | None, changes: Sequence[Change], wrote: bool, idle: bool) -> None:
    assert is_idle(verdict, changes, wrote=wrote) is idle


@pytest.mark.parametrize(("passes", "hot", "cooled", "forgotten"), HOURS.values(), ids=HOURS)
def test_an_hour_is_hot_or_cool_or_forgotten(passes: list[int], hot: bool, cooled: bool, forgotten: bool) -> None:
    assert (is_hot(passes), has_cooled(passes), is_forgotten(passes)) == (hot, cooled, forgotten)


class Clocked:
    def __init__(self, resync_s: float = SLICE_S) -> None:
        self.seconds = 0.0
        self.hot = HotObjects(lambda: START + timedelta(seconds=self.seconds), resync_s)

    def passes(self, count: int, every_s: float = 0, uid: str = "u", generation: int = 1) -> list[int]:
        """The numbers of those passes that made it hot."""
        found = []
        for number in range(1, count + 1):
            if self.hot.idle(DEV, uid, generation):
                found.append(number)
            self.seconds += every_s
        return found


@pytest.mark.parametrize("every_s", [0, 1, 60, 100])
def test_an_object_is_hot_with_its_31st_pass_within_an_hour_and_once(every_s: float) -> None:
    assert Clocked().passes(60, every_s) == [MOST + 1]


@pytest.mark.parametrize("resync_s", [2, 60, 600, 3600])
def test_no_resync_makes_anything_hot(resync_s: float) -> None:
    world = Clocked(resync_s)
    assert world.passes(int(4 * 3600 / resync_s), resync_s) == []


def test_objects_that_are_only_resynced_are_not_counted_by_name() -> None:
    for resync_s in (60, 600):
        world = Clocked(resync_s)
        world.passes(300, resync_s)
        assert len(world.hot) == 0


def test_a_loop_beside_a_short_resync_is_found() -> None:
    assert Clocked(60).passes(200, 10) != []


def test_an_edit_and_another_object_of_the_name_start_at_zero() -> None:
    world = Clocked()
    world.passes(MOST)
    assert world.passes(MOST, generation=2) == []
    assert world.passes(MOST, uid="another") == []
    assert world.passes(MOST + 1, uid="a third") == [MOST + 1]
    assert world.hot.holds(DEV, "a third", 1)
    assert not world.hot.holds(DEV, "another", 1)
    assert not world.hot.holds(DEV, "a third", 2)


def test_it_cools_within_the_hour_after_the_loop_ended_and_is_named_once() -> None:
    world = Clocked()
    world.passes(100)
    assert world.hot.take_cooled() == ()
    world.seconds += 3600
    assert [world.hot.take_cooled() for _ in range(2)] == [(DEV,), ()]
    assert not world.hot.holds(DEV, "u", 1)
    assert len(world.hot) == 0


def test_what_is_gone_is_forgotten() -> None:
    world = Clocked()
    world.passes(100)
    world.hot.forget(DEV)
    assert len(world.hot) == 0


@pytest.mark.slow
def test_ten_thousand_environments_at_rest_take_no_memory_by_name() -> None:
    world = Clocked()
    for _ in range(12):
        for number in range(40_000):
            world.hot.idle(Ref("Environment", f"tenant-{number}", "dev"), f"uid-{number}", 1)
        world.seconds += SLICE_S
    assert len(world.hot) < 600
    assert sys.getsizeof(world.hot._few) < 2 * BUCKETS
