"""Waits of tests for a condition: a generous deadline, and an error that says what did not come and what was there instead."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, cast, overload

from tests.support.patience import DEADLINE_S

AGAIN_S = 0.01
"""Seconds between two looks at a condition at first: it sets no event."""
SELDOM_S = 0.2
"""The longest pause. Looks at a Prometheus every 10 ms took more of the cores than all else while its alerts were waited for."""
T = TypeVar("T")


def until(holds: Callable[[], T], *, within: float = DEADLINE_S, shows: Callable[[], object] | None = None) -> T:
    """Return the answer of a condition as soon as it is true.

    within: seconds; shows: what there is instead, asked at the deadline. Raises AssertionError at the deadline.
    """
    begun = looked = time.monotonic()
    while not (answer := holds()):
        now = time.monotonic()
        if now > begun + within:
            raise AssertionError(_told(holds, within, answer, shows))
        time.sleep(_pause(now - begun, now - looked))
        looked = time.monotonic()
    return answer


@overload
async def eventually(
    holds: Callable[[], Awaitable[T]], *, within: float = DEADLINE_S, shows: Callable[[], object] | None = None
) -> T: ...


@overload
async def eventually(holds: Callable[[], T], *, within: float = DEADLINE_S, shows: Callable[[], object] | None = None) -> T: ...


async def eventually(
    holds: Callable[[], T | Awaitable[T]], *, within: float = DEADLINE_S, shows: Callable[[], object] | None = None
) -> T:
    """Return the answer of a condition as soon as it is true; the condition may be a coroutine function. The rest as `until`."""
    answer: object = None  # also while it is not answered at all
    try:
        async with asyncio.timeout(within):
            begun = time.monotonic()
            while True:
                looked = time.monotonic()
                found = holds()
                answer = await found if inspect.isawaitable(found) else found
                if answer:
                    return cast(T, answer)
                now = time.monotonic()
                await asyncio.sleep(_pause(now - begun, now - looked))
    except TimeoutError:
        raise AssertionError(_told(holds, within, answer, shows)) from None


def _pause(waited_s: float, looked_s: float) -> float:
    """Seconds until the next look: at most a fourth of the time goes into looks, and a pause lengthens a wait by a hundredth."""
    return min(max(AGAIN_S, waited_s / 100, 3 * looked_s), SELDOM_S)


def _told(holds: Callable[[], object], within: float, answer: object, shows: Callable[[], object] | None) -> str:
    sought = getattr(holds, "__qualname__", repr(holds))
    if sought.endswith("<lambda>"):
        with suppress(OSError):
            sought = " ".join(inspect.getsource(holds).split())
    instead = f"; there is {shows()!r}" if shows is not None else ""
    return f"not within {within:.0f} s: {sought[:400]}; it was {answer!r} at last{instead}"
