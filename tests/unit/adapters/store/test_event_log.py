"""The changes that are kept for watchers are bounded in number and in bytes."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from tenantry.adapters.store.event_log import MOST_BYTES, EventLog, LoggedEvent
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Expired

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
