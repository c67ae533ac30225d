"""Engines share threads: none takes them all, turns go round, and what nobody waits for is not done."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from tenantry.rest.fairness.lanes import Lanes, Overloaded, Sharing
from tests.support.waiting import eventually

SHARING = Sharing(threads=4, of_tenant=3, of_lane=2, of_bulk=1, waiting=5)


class Gate:
    """Work that stands still until it is let go, and counts how many stand there."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.standing = 0
        self.began: list[str] = []
        self._lock = threading.Lock()

    def work(self, name: str) -> Callable[[], str]:
        def stand() -> str:
            with self._lock:
                self.standing += 1
                self.began.append(name)
            assert self.open.wait(30)
            return name

        return stand


async def test_a_lane_and_a_tenant_use_their_part_of_the_threads_at_most() -> None:
    lanes, gate = Lanes(SHARING, "t"), Gate()
    first, second, other = lanes.lane("a", "1"), lanes.lane("a", "2"), lanes.lane("b", "1")
    calls = [asyncio.ensure_future(lane.run(gate.work(name))) for lane, name in ((first, "a1"), (second, "a2")) for _ in range(4)]
    await eventually(lambda: gate.standing == SHARING.of_tenant)
    assert sorted(gate.began) in (["a1", "a1", "a2"], ["a1", "a2", "a2"])
    assert await other.run(lambda: "b answers") == "b answers"
    assert gate.standing == SHARING.of_tenant
    gate.open.set()
    assert sorted(await asyncio.gather(*calls)) == ["a1"] * 4 + ["a2"] * 4


async def test_threads_that_nobody_waits_for_are_lent_and_come_back_after_one_call() -> None:
    lanes = Lanes(Sharing(threads=2, of_tenant=1, of_lane=1, of_bulk=1, lends=True), "t")
    gates = [Gate(), Gate(), Gate()]
    alone = [asyncio.ensure_future(lanes.lane("a", "1").run(gate.work("a"))) for gate in gates]
    await eventually(lambda: gates[0].standing + gates[1].standing == 2)
    other = asyncio.ensure_future(lanes.lane("b", "1").run(lambda: gates[2].standing))
    await asyncio.sleep(0)
    gates[0].open.set()
    assert await other == 0, "a third call of the tenant that has both threads began before the first of another"
    for gate in gates:
        gate.open.set()
    assert await asyncio.gather(*alone) == ["a"] * 3


async def test_bulk_work_leaves_a_thread_of_its_lane_to_the_rest() -> None:
    lanes, gate = Lanes(SHARING, "t"), Gate()
    lane = lanes.lane("a", "1")
    queries = [asyncio.ensure_future(lane.run(gate.work("query"), bulk=True)) for _ in range(3)]
    await eventually(lambda: gate.standing == SHARING.of_bulk)
    assert await lane.run(lambda: "signed in") == "signed in"
    gate.open.set()
    await asyncio.gather(*queries)


async def test_turns_go_round_the_tenants() -> None:
    lanes, gate = Lanes(Sharing(threads=1, of_tenant=1, of_lane=1, of_bulk=1), "t"), Gate()
    first = asyncio.ensure_future(lanes.lane("a", "1").run(gate.work("first")))
    await eventually(lambda: gate.standing == 1)
    waiting = [asyncio.ensure_future(lanes.lane(t, "1").run(gate.work(t))) for t in ("a", "a", "a", "b", "c")]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(first, *waiting)
    assert gate.began[1:4] in (["a", "b", "c"], ["b", "c", "a"])


async def test_a_line_that_is_full_refuses_and_others_do_not() -> None:
    lanes, gate = Lanes(SHARING, "t"), Gate()
    lane = lanes.lane("a", "1")
    held = [asyncio.ensure_future(lane.run(gate.work("x"))) for _ in range(SHARING.of_lane)]
    await eventually(lambda: gate.standing == SHARING.of_lane)
    held += [asyncio.ensure_future(lane.run(gate.work("x"))) for _ in range(SHARING.waiting)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="5 requests of this environment wait already"):
        await lane.run(lambda: None)
    assert await lanes.lane("b", "1").run(lambda: 1) == 1
    gate.open.set()
    await asyncio.gather(*held)
    await eventually(lambda: lanes._tenants == {})


async def test_a_call_that_is_given_up_while_it_waits_is_not_made() -> None:
    lanes, gate = Lanes(Sharing(threads=1, of_tenant=1, of_lane=1, of_bulk=1), "t"), Gate()
    lane = lanes.lane("a", "1")
    first = asyncio.ensure_future(lane.run(gate.work("first")))
    await eventually(lambda: gate.standing == 1)
    given_up = asyncio.ensure_future(lane.run(gate.work("given up")))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    gate.open.set()
    await first
    assert await lane.run(lambda: "next") == "next"
    assert gate.began == ["first"]


async def test_an_error_of_the_work_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        await Lanes(SHARING, "t").lane("a", "1").run(lambda: 1 // 0)


async def test_calls_of_one_moment_run_beside_each_other_although_a_thread_is_idle() -> None:
    lanes, gate = Lanes(SHARING, "t"), Gate()
    await lanes.lane("a", "1").run(lambda: None)  # its thread is idle now, and not yet awake when the second call comes
    both = [asyncio.ensure_future(lanes.lane(tenant, "1").run(gate.work(tenant))) for tenant in ("a", "b")]
    await eventually(lambda: gate.standing == 2)
    gate.open.set()
    await asyncio.gather(*both)


class Result:
    """A value that says when nobody holds it any more."""


@pytest.mark.parametrize("fails", [False, True])
async def test_a_thread_that_waits_holds_nothing_of_its_last_call(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenantry.rest.fairness.lanes.IDLE_S", 120.0)  # longer than the test waits
    lanes, made = Lanes(SHARING, "t"), list[weakref.ref[Result]]()

    def work() -> Result:
        result = Result()
        made.append(weakref.ref(result))
        if fails:
            raise ValueError
        return result

    future = lanes.submit("acme", "dev", work, bulk=False)
    assert (future.exception(30) is not None) == fails
    del future
    await eventually(lambda: made[0]() is None)


async def test_threads_that_nobody_calls_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenantry.rest.fairness.lanes.IDLE_S", 0.05)
    before = threading.active_count()
    lanes = Lanes(SHARING, "t")
    await asyncio.gather(*(lanes.lane(f"{number}", "1").run(lambda: None) for number in range(20)))
    await eventually(lambda: threading.active_count() <= before)
    assert await lanes.lane("a", "1").run(lambda: "again") == "again"


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has a priority of its own on Linux alone")
async def test_threads_give_way_to_the_event_loop_also_those_that_such_a_thread_starts() -> None:
    lanes = Lanes(Sharing(threads=2, of_tenant=2, of_lane=2, of_bulk=1, nice=5), "t")
    lane, both = lanes.lane("a", "1"), threading.Barrier(2, timeout=30)

    def nice() -> int:
        both.wait()  # two calls at once have two threads
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def twice() -> list[int]:
        second = lane.submit(nice)
        return [nice(), second.result(30)]

    expected = min(19, os.getpriority(os.PRIO_PROCESS, os.getpid()) + 5)
    assert await lane.run(twice) == [expected, expected]
