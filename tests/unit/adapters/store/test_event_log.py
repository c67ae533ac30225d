"""The changes that are kept for watchers are bounded in number and in bytes, and go once all have seen them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from tenantry.adapters.store.event_log import MOST_BYTES, RESTS_S, EventLog, LoggedEvent
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Expired
from tests.support.virtual_time import run_virtually

KEEP = 10
REF = Ref("Environment", "tenant-acme", "dev")


def written(sizes: list[int]) -> EventLog:
    """A log in which changes of those sizes in bytes have the versions 1, 2, and so on."""
    log = EventLog(0, KEEP, lambda body: {"size": len(body)})
    for version, size in enumerate(sizes, 1):
        log.publish(LoggedEvent(version, REF, "MODIFIED", b"x" * size))
    return log


async def seen(log: EventLog, after: int, count: int) -> list[int]:
    found = list[int]()
    async with aclosing(log.watch(REF.kind, after)) as events:  # type: ignore[type-var]
        async for event in events:
            found.append(int(event.version))
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([100] * KEEP, KEEP),
        ([100] * (KEEP + 5), KEEP),
        ([MOST_BYTES // 4] * KEEP, 4),
        ([MOST_BYTES // 4, *[100] * 5], 6),
        ([*[100] * 5, MOST_BYTES], 1),
        ([MOST_BYTES * 2, MOST_BYTES * 2], 1),
        ([MOST_BYTES * 2, 100], 1),
    ],
    ids=["few", "many", "large", "one large", "a very large last one", "only very large ones", "a very large first one"],
)
async def test_the_newest_changes_are_kept_up_to_their_number_and_their_bytes(sizes: list[int], kept: int) -> None:
    log, first = written(sizes), len(sizes) - kept
    assert await seen(log, first, kept) == list(range(first + 1, len(sizes) + 1))
    if first:
        with pytest.raises(Expired):
            await seen(log, first - 1, 1)


async def test_large_changes_of_one_kind_push_out_none_of_another() -> None:
    log = written([100] * KEEP)
    for version in range(KEEP + 1, KEEP + 9):
        log.publish(LoggedEvent(version, REF._replace(kind="App"), "MODIFIED", b"x" * (MOST_BYTES // 2)))
    assert await seen(log, 0, KEEP) == list(range(1, KEEP + 1))


@asynccontextmanager
async def watching(log: EventLog, takes: int | None = None) -> AsyncIterator[list[int]]:
    """A watcher from the start that takes so many changes and then lags behind, or all of them. Gives what it has taken."""
    taken, goes_on = list[int](), asyncio.Event()

    async def watch() -> None:
        async with aclosing(log.watch(REF.kind, 0)) as events:  # type: ignore[type-var]
            async for event in events:
                taken.append(int(event.version))
                if len(taken) == takes:
                    await goes_on.wait()

    task = asyncio.create_task(watch())
    try:
        yield taken
        goes_on.set()
        await asyncio.sleep(0.1 * RESTS_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_kind_at_rest_keeps_only_its_last_change() -> None:
    async def story() -> None:
        log = written([100] * 5)
        async with watching(log):
            await asyncio.sleep(0.9 * RESTS_S)
            assert await seen(log, 0, 5) == [1, 2, 3, 4, 5]
            await asyncio.sleep(0.2 * RESTS_S)
            assert await seen(log, 4, 1) == [5]
            with pytest.raises(Expired):
                await seen(log, 3, 1)

    run_virtually(story())


def test_a_watcher_sees_all_changes_before_and_after_a_rest() -> None:
    async def story() -> None:
        log = written([100] * 5)
        async with watching(log) as taken:
            for version in range(6, 9):
                await asyncio.sleep(2 * RESTS_S)
                log.publish(LoggedEvent(version, REF, "MODIFIED", b"x"))
        assert taken == list(range(1, 9))

    run_virtually(story())


def test_a_watcher_that_lags_behind_a_rest_misses_nothing() -> None:
    async def story() -> None:
        log = written([100] * 5)
        async with watching(log, takes=2) as late, watching(log) as prompt:
            await asyncio.sleep(2 * RESTS_S)
            assert (late, prompt) == ([1, 2], [1, 2, 3, 4, 5])
        assert late == [1, 2, 3, 4, 5]

    run_virtually(story())


def test_changes_that_nobody_watches_stay() -> None:
    async def story() -> None:
        log = written([100] * 5)
        await asyncio.sleep(10 * RESTS_S)
        assert await seen(log, 0, 5) == [1, 2, 3, 4, 5]

    run_virtually(story())
