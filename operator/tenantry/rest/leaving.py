"""Work for a request that ends when its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")
UNWATCHED_S = 0.02
"""Seconds of work after which a client that leaves is noticed."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; it is cancelled when the client leaves. Raises ClientDisconnect. Call it after reading
    the body."""
    watch = _Watch(request)
    # Most work is done before anybody could leave.
    timer = asyncio.get_running_loop().call_later(UNWATCHED_S, watch.begin)
    try:
        return await work
    except asyncio.CancelledError:
        if watch.ended_work:
            raise ClientDisconnect from None
        raise
    finally:
        timer.cancel()
        watch.end()


class _Watch:
    """Cancels the task that made it when the client leaves."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._task = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self._left = False

    def begin(self) -> None:
        self._watching = asyncio.ensure_future(self._watch())

    def end(self) -> None:
        # A cancelled task keeps what it was doing: without letting it go, only the garbage collector would free both.
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()

    @property
    def ended_work(self) -> bool:
        """Return True if the work was cancelled because the client left, and by nobody else. Asked once."""
        return self._left and self._task is not None and self._task.uncancel() == 0

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        if self._task is not None:
            self._left = True
            self._task.cancel()
