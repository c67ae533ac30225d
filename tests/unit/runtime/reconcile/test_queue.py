"""The order of turns."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.model.measures import LoopMeasures
from tenantry.model.resource import Ref
from tenantry.runtime.reconcile.queue import BEHIND, SHARE, PassLimits, Queue
from tests.support.patience import DEADLINE_S


class Clock:
    """Monotonic time that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> Queue:
    return Queue(clock)


def key(name: str, lane: str = "tenant-acme") -> Ref:
    return Ref("Environment", lane, name)


async def taken(queue: Queue, count: int) -> list[str]:
    """The names of the next keys, each done before the next is taken."""
    names = []
    for _ in range(count):
        one = await asyncio.wait_for(queue.take(), DEADLINE_S)
        queue.done(one)
        names.append(one.name)
    return names


async def waiting(queue: Queue) -> asyncio.Task[Ref]:
    """A taker for whom there is no key yet."""
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taking.done()
    return taking


async def test_a_lane_is_served_in_order(queue: Queue) -> None:
    for name in "abc":
        queue.add(key(name))
    assert await taken(queue, 3) == ["a", "b", "c"]


async def test_lanes_are_served_in_turn(queue: Queue) -> None:
    for name in ("a1", "a2", "a3"):
        queue.add(key(name))
    queue.add(key("b1", "tenant-umbra"))
    queue.add(Ref("Tenant", "", "c1"))
    assert await taken(queue, 5) == ["a1", "b1", "c1", "a2", "a3"]


async def test_one_behind_two_thousand_of_another_tenant_is_served_next(queue: Queue) -> None:
    for number in range(2000):
        queue.add(key(f"e{number}"))
    queue.add(key("late", "tenant-umbra"))
    assert "late" in await taken(queue, 2)


async def test_a_key_that_waits_already_is_served_once(queue: Queue) -> None:
    for _ in range(3):
        queue.add(key("a"))
    assert await taken(queue, 1) == ["a"]
    assert not queue.busy()


@pytest.mark.parametrize("then", ["add", "add_behind"])
@pytest.mark.parametrize("first", ["add", "add_behind"])
async def test_a_key_is_never_in_two_passes_at_once_nor_twice_in_line(queue: Queue, first: str, then: str) -> None:
    getattr(queue, first)(key("a"))
    getattr(queue, then)(key("a"))
    running = await queue.take()
    getattr(queue, then)(key("a"))
    getattr(queue, then)(key("b"))
    assert (await queue.take()).name == "b"
    queue.done(running)
    assert await taken(queue, 1) == ["a"]


async def test_what_was_added_often_during_its_pass_is_served_once_more(queue: Queue) -> None:
    queue.add(key("a"))
    running = await queue.take()
    for _ in range(3):
        queue.add(key("a"))
    queue.done(running)
    assert await taken(queue, 1) == ["a"]
    assert not queue.busy()


async def test_a_taker_waits_for_a_key(queue: Queue) -> None:
    taking = await waiting(queue)
    queue.add(key("a"))
    assert (await asyncio.wait_for(taking, DEADLINE_S)).name == "a"


async def test_a_taker_that_is_cancelled_as_it_is_called_leaves_the_key_to_another(queue: Queue) -> None:
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add(key("a"))
    first.cancel()
    assert (await asyncio.wait_for(second, DEADLINE_S)).name == "a"
    assert first.cancelled()


async def test_a_later_key_comes_when_its_time_is_there() -> None:
    queue = Queue(asyncio.get_running_loop().time)
    queue.add_after(key("late"), 0.02)
    queue.add_after(key("early"), 0.01)
    assert await taken(queue, 2) == ["early", "late"]


async def test_the_sooner_of_two_times_holds() -> None:
    queue = Queue(asyncio.get_running_loop().time)
    queue.add_after(key("a"), 60.0)
    queue.add_after(key("a"), 0.01)
    queue.add_after(key("a"), 60.0)
    assert await taken(queue, 1) == ["a"]
    assert not queue.busy(60.0)


async def test_now_holds_before_later(queue: Queue) -> None:
    queue.add_after(key("a"), 60.0)
    queue.add(key("a"))
    assert await taken(queue, 1) == ["a"]
    assert not queue.busy(60.0)


async def test_it_is_busy_with_what_runs_waits_or_is_due(queue: Queue, clock: Clock) -> None:
    assert not queue.busy(60.0)
    queue.add(key("a"))
    assert queue.busy()
    running = await queue.take()
    assert queue.busy()
    queue.done(running)
    assert not queue.busy()
    queue.add_after(key("a"), 10.0)
    assert queue.busy(10.0)
    assert not queue.busy(9.0)
    clock.seconds = 1.0
    assert queue.busy(9.0)


async def test_what_is_forgotten_comes_no_more(queue: Queue) -> None:
    queue.add_after(key("a"), 10.0)
    queue.forget(key("a"))
    assert not queue.busy(60.0)


async def test_what_is_due_soon_comes_at_once_for_who_hurries_and_only_when_nothing_else_waits(queue: Queue) -> None:
    queue.add_after(key("soon"), 50)
    queue.add_after(key("late"), 500)
    queue.add(key("now"))
    queue.hurry(100)
    assert await taken(queue, 1) == ["now"]
    queue.hurry(100)
    assert await taken(queue, 1) == ["soon"]
    queue.hurry(100)
    assert queue.busy(500) and not queue.busy(100)


async def test_what_waits_behind_comes_when_nothing_else_is_wanted(queue: Queue) -> None:
    for name in ("a", "b"):
        queue.add_behind(key(name))
    queue.add(key("now", "tenant-umbra"))
    assert await taken(queue, 3) == ["now", "a", "b"]
    assert not queue.busy()


async def test_a_key_that_waits_behind_comes_sooner_when_it_is_wanted_and_once(queue: Queue) -> None:
    for number in range(2000):
        queue.add_behind(key(f"e{number}"))
    queue.add(key("e1999"))
    assert await taken(queue, 2) == ["e1999", "e0"]
    assert "e1999" not in await taken(queue, 1998)
    assert not queue.busy()


async def test_a_key_that_came_sooner_can_wait_behind_again(queue: Queue) -> None:
    for name in ("a", "b"):
        queue.add_behind(key(name))
    queue.add(key("b"))
    assert await taken(queue, 1) == ["b"]
    queue.add_behind(key("b"))
    assert await taken(queue, 2) == ["a", "b"]
    assert not queue.busy()


async def test_what_is_wanted_without_end_holds_up_nothing_behind_for_good(queue: Queue) -> None:
    queue.add_behind(key("behind"))
    served = []
    for number in range(SHARE):
        queue.add(key(f"now{number}a"))
        queue.add(key(f"now{number}b"))
        served += await taken(queue, 1)
    assert served.count("behind") == 1


async def test_a_time_that_comes_before_the_turn_behind_holds() -> None:
    loop, passed = asyncio.get_running_loop(), asyncio.Event()
    queue = Queue(loop.time)
    for name in ("e1", "due"):
        queue.add_behind(key(name))
    queue.add_after(key("due"), 0.01)
    loop.call_later(0.02, passed.set)
    await asyncio.wait_for(passed.wait(), DEADLINE_S)
    assert await taken(queue, 2) == ["due", "e1"]
    assert not queue.busy(60.0)


async def test_a_turn_behind_is_in_the_place_of_a_later_time(queue: Queue) -> None:
    queue.add_behind(key("a"))
    queue.add_after(key("a"), 10.0)
    assert await taken(queue, 1) == ["a"]
    assert not queue.busy(60.0)


async def test_only_what_somebody_waits_for_counts_as_waiting(clock: Clock) -> None:
    measures = LoopMeasures(clock)
    queue = Queue(clock, measures)
    for name in ("rest", "changed"):
        queue.add_behind(key(name))
    clock.seconds = 60.0
    queue.add(key("changed"))
    queue.add(key("new"))
    clock.seconds = 61.0
    assert await taken(queue, 3) == ["changed", "new", "rest"]
    kind = measures.kinds["Environment"]
    assert (kind.adds, kind.depth, kind.waited.count, kind.waited.sum, kind.worked.count) == (3, 0, 2, 2.0, 3)


async def test_a_namespace_has_only_so_many_passes_at_once(clock: Clock) -> None:
    queue = Queue(clock, limits=PassLimits(2, 9))
    for number in range(5):
        queue.add(key(f"a{number}"))
        queue.add_behind(key(f"r{number}"))
    queue.add(key("b0", "tenant-umbra"))
    queue.add_behind(key("b1", "tenant-umbra"))
    begun = [await queue.take() for _ in range(4)]
    assert [each.name for each in begun] == ["a0", "b0", "a1", "b1"]
    taking = await waiting(queue)
    queue.done(begun[0])
    assert (await asyncio.wait_for(taking, DEADLINE_S)).name == "a2"


async def test_behind_only_so_many_run_at_once_and_a_change_beside_them(clock: Clock) -> None:
    queue = Queue(clock, limits=PassLimits(9, 2))
    for name in ("a", "b", "c"):
        queue.add_behind(key(name, f"tenant-{name}"))
    first, _ = [await queue.take() for _ in range(2)]
    taking = await waiting(queue)
    queue.add(key("now"))
    assert (await asyncio.wait_for(taking, DEADLINE_S)).name == "now"
    queue.done(first)
    assert (await asyncio.wait_for(queue.take(), DEADLINE_S)).name == "c"


async def test_a_key_that_may_not_run_behind_is_taken_as_soon_as_it_is_wanted(clock: Clock) -> None:
    queue = Queue(clock, limits=PassLimits(9, 1))
    for name in ("a", "b"):
        queue.add_behind(key(name))
    await queue.take()
    taking = await waiting(queue)
    queue.add(key("b"))
    assert (await asyncio.wait_for(taking, DEADLINE_S)).name == "b"


async def test_a_taker_that_waits_for_a_full_namespace_takes_what_comes_of_another(clock: Clock) -> None:
    queue = Queue(clock, limits=PassLimits(1, 9))
    for name in ("a", "b"):
        queue.add(key(name))
    await queue.take()
    taking = await waiting(queue)
    queue.add(key("c", "tenant-umbra"))
    assert (await asyncio.wait_for(taking, DEADLINE_S)).name == "c"


async def test_a_taker_that_was_cancelled_leaves_the_free_place_to_another(clock: Clock) -> None:
    queue = Queue(clock, limits=PassLimits(1, 9))
    for name in ("a", "b"):
        queue.add(key(name))
    running = await queue.take()
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.done(running)
    first.cancel()
    assert (await asyncio.wait_for(second, DEADLINE_S)).name == "b"


async def test_behind_a_few_namespaces_are_served_in_turn_before_the_others(queue: Queue) -> None:
    lanes = [f"tenant-{number}" for number in range(BEHIND + 2)]
    for lane in lanes:
        for name in ("a", "b"):
            queue.add_behind(key(f"{lane}/{name}", lane))
    names = await taken(queue, 2 * len(lanes))
    first = [f"{lane}/a" for lane in lanes[:BEHIND]]
    assert names[:BEHIND] == first
    assert names.index(f"{lanes[-1]}/a") > names.index(f"{lanes[0]}/b")
    assert sorted(names) == sorted(f"{lane}/{name}" for lane in lanes for name in ("a", "b"))
    assert not queue.busy()


class Workers:
    """Four that take keys, and keep each until it is said to be done."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._ends: dict[Ref, asyncio.Event] = {}
        self.begun: list[Ref] = []
        self.tasks = [asyncio.create_task(self._work()) for _ in range(4)]

    @property
    def running(self) -> list[Ref]:
        return list(self._ends)

    async def _work(self) -> None:
        while True:
            one = await self._queue.take()
            assert one not in self._ends, "in two passes at once"
            self.begun.append(one)
            self._ends[one] = asyncio.Event()
            await self._ends[one].wait()
            del self._ends[one]
            self._queue.done(one)

    async def end(self, number: int) -> None:
        if self._ends:
            self._ends[self.running[number % len(self._ends)]].set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


@given(st.lists(st.tuples(st.sampled_from(["add", "add_behind", "end"]), st.integers(0, 3), st.integers(0, 3)), max_size=60))
def test_every_key_that_is_wanted_gets_its_pass(steps: list[tuple[str, int, int]]) -> None:
    """Whatever the order: none is lost, none runs twice at once, and no namespace has more passes than it may."""

    async def play() -> None:
        queue = Queue(Clock(), limits=PassLimits(2, 1))
        workers = Workers(queue)
        wanted: dict[Ref, int] = {}
        for step, lane, name in steps:
            if step == "end":
                await workers.end(name)
            else:
                one = key(str(name), f"tenant-{lane}")
                wanted[one] = workers.begun.count(one) + (one in workers.running)
                getattr(queue, step)(one)
                await workers.settle()
            passes = Counter(each.namespace for each in workers.running)
            assert max(passes.values(), default=0) <= 2
            if step == "add":
                assert one in workers.running or passes[one.namespace] == 2 or passes.total() == 4
        while workers.running:
            await workers.end(0)
        assert [one for one, before in wanted.items() if workers.begun.count(one) < before] == []
        assert not queue.busy(), "a key waits although all workers are free"
        for task in workers.tasks:
            task.cancel()

    asyncio.run(play())
