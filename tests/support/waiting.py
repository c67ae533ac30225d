"""Waits of tests for a condition: a generous deadline, and an error that says what did not come and what was there instead."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, cast

from tests.support.patience import DEADLINE_S

AGAIN_S = 0.01
"""Seconds between two looks at a condition: it sets no event."""
T = TypeVar("T")


def until(holds: Callable[[], T], *, within: float = DEADLINE_S, shows: Callable[[], object] | None = None) -> T:
    """Return the answer of a condition as soon as it is true.

    within: seconds; shows: what there is instead, asked at the deadline. Raises AssertionError at the deadline.
    """
    end = time.monotonic() + within
    while not (answer := holds()):
        if time.monotonic() > end:
            raise AssertionError(_told(holds, within, answer, shows))
        time.sleep(AGAIN_S)
    return answer


async def eventually(
    holds: Callable[[], T | Awaitable[T]], *, within: float = DEADLINE_S, shows: Callable[[], object] | None = None
) -> T:
    """Return the answer of a condition as soon as it is true; the condition may be a coroutine function. The rest as `until`."""
    answer: object = None  # also while it is not answered at all
    try:
        async with asyncio.timeout(within):
            while True:
                found = holds()
                answer = await found if inspect.isawaitable(found) else found
                if answer:
                    return cast(T, answer)
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        raise AssertionError(_told(holds, within, answer, shows)) from None


def _told(holds: Callable[[], object], within: float, answer: object, shows: Callable[[], object] | None) -> str:
    sought = getattr(holds, "__qualname__", repr(holds))
    if sought.endswith("<lambda>"):
        with suppress(OSError):
            sought = " ".join(inspect.getsource(holds).split())
    instead = f"; there is {shows()!r}" if shows is not None else ""
    return f"not within {within:.0f} s: {sought[:400]}; it was {answer!r} at last{instead}"
