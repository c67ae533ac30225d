"""Waiting for the cache to show something, without asking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tenantry.runtime.cache import Cache, Seen

T = TypeVar("T")


async def until(cache: Cache, look: Callable[[], T | None], concerns: Callable[[Seen], bool], seconds: float) -> T | None:
    """Return the result of `look`, now or after a change that concerns it; None when the time is up."""
    changed = asyncio.Event()

    def seen(one: Seen) -> None:
        if concerns(one):
            changed.set()

    unlisten = cache.listen(seen)
    try:
        async with asyncio.timeout(seconds):
            while (found := look()) is None:
                await changed.wait()
                changed.clear()
            return found
    except TimeoutError:
        return look()
    finally:
        unlisten()
