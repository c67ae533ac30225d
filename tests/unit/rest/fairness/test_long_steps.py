"""Steps that hold the interpreter: one at a time, with a rest after each."""

from __future__ import annotations

import gc
import threading
from contextvars import copy_context

import pytest

from tenantry.rest.fairness.long_steps import LARGE, LONGEST_REST_S, LongSteps, off_the_loop


class Time:
    """A clock that moves when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.steps = LongSteps(self.clock, self.clock, self.sleep)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds

    def work(self, seconds: float) -> str:
        self.now += seconds
        return "done"


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.mark.parametrize(
    ("size", "took", "between", "slept"),
    [
        (LARGE, 0.004, 0.0, [0.004]),
        (LARGE, 0.004, 0.003, [0.001]),
        (LARGE, 0.004, 0.005, []),
        (LARGE, 9.0, 0.0, [LONGEST_REST_S]),
        (LARGE - 1, 0.004, 0.0, []),
    ],
    ids=["at once", "shortly after", "after a while", "after a very long one", "a short text"],
)
def test_the_next_long_step_begins_after_a_rest(time: Time, size: int, took: float, between: float, slept: list[float]) -> None:
    assert time.steps.over(size, lambda: time.work(took)) == "done"
    time.now += between
    time.steps.over(size, lambda: time.work(0.001))
    assert time.slept == slept


def test_many_short_steps_are_followed_by_one_rest(time: Time) -> None:
    for _ in range(6):
        time.steps.over(LARGE, lambda: time.work(0.0002))
    assert time.slept == [0.0006]


def test_steps_of_unknown_size_are_long_in_the_context_of_a_long_one_only(time: Time) -> None:
    def request(size: int) -> None:
        time.steps.over(size, lambda: time.work(0.002))
        time.steps.following(lambda: time.work(0.001))

    copy_context().run(request, LARGE)
    copy_context().run(request, 10)
    assert time.slept == [0.002]


def test_a_step_that_fails_is_followed_by_a_rest(time: Time) -> None:
    def fail() -> None:
        time.work(0.003)
        raise ValueError

    with pytest.raises(ValueError):
        time.steps.over(LARGE, fail)
    time.steps.over(LARGE, lambda: time.work(0.001))
    assert time.slept == [0.003]


def test_long_steps_of_two_threads_do_not_overlap() -> None:
    steps, running, most, others = LongSteps(), 0, 0, threading.Event()

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        others.wait(0.01)  # they come in here, if they may
        running -= 1

    threads = [threading.Thread(target=steps.over, args=(LARGE, work)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize(("size", "collects"), [(LARGE, False), (LARGE - 1, True)], ids=["long", "short"])
def test_nothing_is_collected_during_a_long_step(time: Time, size: int, collects: bool, collecting: bool) -> None:
    def fails() -> None:
        seen.append(gc.isenabled())
        raise ValueError

    seen: list[bool] = []
    was = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        with pytest.raises(ValueError):
            time.steps.over(size, fails)
        assert (seen, gc.isenabled()) == ([collecting and collects], collecting)
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.parametrize(("size", "on_the_loop"), [(LARGE - 1, True), (LARGE, False)])
async def test_a_step_in_python_leaves_the_event_loop_if_it_is_long(size: int, on_the_loop: bool) -> None:
    assert (await off_the_loop(size, threading.get_ident) == threading.get_ident()) == on_the_loop
