"""Pauses of work that never waits."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tenantry.runtime.pace import Pace


async def test_others_run_between_two_slices_of_many_tasks_at_once() -> None:
    ran: list[str] = []
    pace = Pace(slice_s=0)

    async def work(number: int) -> None:
        await pace.breathe()
        ran.append(f"work {number}")

    async def other() -> None:
        for _ in range(20):
            ran.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(5)), other())
    worked = [position for position, what in enumerate(ran) if what.startswith("work")]
    assert all(later - earlier > 1 for earlier, later in pairwise(worked)), ran


async def test_work_shorter_than_a_slice_is_not_paused() -> None:
    ran: list[str] = []
    pace = Pace(slice_s=60)

    async def work(name: str) -> None:
        for _ in range(3):
            await pace.breathe()
            ran.append(name)

    await asyncio.gather(work("first"), work("second"))
    assert ran == ["first"] * 3 + ["second"] * 3


@pytest.mark.parametrize(
    ("others_s", "pauses"),
    [
        pytest.param(0.0, 10, id="alone: a slice of 1 ms"),
        pytest.param(0.002, 5, id="others take 2 ms: so may it"),
        pytest.param(0.050, 3, id="others take 50 ms: no more than 4 ms"),
    ],
)
async def test_a_slice_is_as_long_as_the_part_of_the_others(
    monkeypatch: pytest.MonkeyPatch, others_s: float, pauses: int
) -> None:
    clock = 0.0
    paused = 0

    async def others(_: float) -> None:
        nonlocal clock, paused
        paused += 1
        clock += others_s

    monkeypatch.setattr(f"{Pace.__module__}.perf_counter", lambda: clock)
    monkeypatch.setattr(asyncio, "sleep", others)
    pace = Pace(slice_s=0.001, most_s=0.004)
    for _ in range(10):
        clock += 0.001
        await pace.breathe()
    assert paused == pauses
