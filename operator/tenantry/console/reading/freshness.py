"""The age of the data on pages: the store is asked each second, but only while somebody reads pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta

from tenantry.model.verdicts import Forbidden, Halt, NotFound

EVERY_S = 1.0
"""Seconds between two looks."""
AGAIN_S = 0.25
"""The same after one that failed."""
ANSWERS_S = 2.0
"""Seconds that the store has for an answer."""
LATE = timedelta(seconds=3)
"""Data that was not confirmed for so long is old."""
READ_S = 10.0
"""Seconds for which looks go on after a page was read."""
FIRST_S = 1.0
"""Seconds that a page waits at most for the first look."""
Listener = Callable[[], None]


class Freshness:
    """The time at which the cache was last confirmed by the store."""

    def __init__(
        self,
        confirm: Callable[[], Awaitable[object]],
        interrupted: Callable[[], datetime | None],
        now: Callable[[], datetime],
    ) -> None:
        """confirm: reads something from the store, raises a Halt if that fails; interrupted: when changes ceased to arrive,
        None while they do."""
        self._confirm = confirm
        self._interrupted = interrupted
        self._now = now
        self._confirmed = now()
        self._read_until = self._confirmed
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self._listeners: list[Listener] = []
        self.old_since: datetime | None = None
        """The time of the data on pages, if it is old; None while the store answers."""

    def listen(self, listener: Listener) -> Listener:
        """Call `listener` when data becomes old or new again, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def reading(self) -> None:
        """Take note that somebody reads a page now."""
        self._read_until = self._now() + timedelta(seconds=READ_S)
        if self._task is None or self._task.done():
            self._looked = asyncio.Event()
            self._task = asyncio.create_task(self._look_on(), name="console freshness")

    async def first_look(self) -> None:
        """Take note of a reader, and wait for a look if there was none for a while. At most FIRST_S."""
        self.reading()
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_S):
                await self._looked.wait()

    async def _look_on(self) -> None:
        while self._now() < self._read_until:
            answered = await self._look()
            self._looked.set()
            await asyncio.sleep(EVERY_S if answered else AGAIN_S)

    async def _look(self) -> bool:
        began, broken = self._now(), self._interrupted()
        answers = await self._answers()
        if answers or broken is not None:
            self._confirmed = max(self._confirmed, broken or began)
        whole = answers and broken is None
        old = None if whole or self._now() - self._confirmed < LATE else self._confirmed
        if old != self.old_since:
            self.old_since = old
            for listener in tuple(self._listeners):
                listener()
        return answers

    async def _answers(self) -> bool:
        """Return True if the store answers, be it with a refusal."""
        left = (LATE - (self._now() - self._confirmed)).total_seconds()
        try:
            async with asyncio.timeout(min(left, ANSWERS_S) if left > 0 else ANSWERS_S):
                await self._confirm()
        except (NotFound, Forbidden):
            return True
        except (Halt, TimeoutError):
            return False
        return True
