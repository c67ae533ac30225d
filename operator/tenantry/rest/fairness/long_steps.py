"""Steps in C that hold the interpreter: one at a time, and after each a rest that is as long.

Python code gives the interpreter away every 0.1 ms. A parser in C keeps it until it has ended, while the event loop waits; two
threads with such steps in turn would leave the loop a small part of the interpreter.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
LARGE = 16 << 10
"""Bytes of text from which a step is long: parsing as many takes up to 0.5 ms."""
SHORTEST_REST_S, LONGEST_REST_S = 0.0005, 0.02
"""Steps that take less than the first are not followed by a rest each, but by one for several."""


class LongSteps:
    """The long steps of a process. clock: monotonic seconds; spent: the thread's seconds on a processor."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._spent, self._sleep = clock, spent, sleep
        self._one = threading.Lock()
        self._next = self._owed_s = 0.0
        self._large: ContextVar[bool] = ContextVar("large", default=False)

    def over(self, size: int, work: Callable[[], T]) -> T:
        """Return the result of a step over so many bytes. Blocks: it is for threads.

        If it is long, so are the steps of unknown size that follow in the same context.
        """
        if size < LARGE:
            return work()
        self._large.set(True)
        return self._in_turn(work)

    def following(self, work: Callable[[], T]) -> T:
        """Return the result of a step whose size is not known. Blocks."""
        return self._in_turn(work) if self._large.get() else work()

    def _in_turn(self, work: Callable[[], T]) -> T:
        with self._one:
            rest = self._next - self._clock()
            if rest > 0:
                self._sleep(rest)
            began = self._spent()
            try:
                with _uncollected():
                    return work()
            finally:
                self._owe(self._spent() - began)

    def _owe(self, seconds: float) -> None:
        self._owed_s += seconds
        if self._owed_s >= SHORTEST_REST_S:
            self._next, self._owed_s = self._clock() + min(self._owed_s, LONGEST_REST_S), 0.0


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keeps the garbage collector away: 50,000 parsed values made it look at everything that lives, for 25 ms, twice a second.

    What was parsed is looked at once, afterwards: no part of JSON refers to itself.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


LONG_STEPS = LongSteps()


async def off_the_loop(size: int, work: Callable[[], T]) -> T:
    """Return the result of a step in Python over about so many bytes: from a thread if it is long, and else at once.

    Where many requests are under way, the way to a thread and back takes two rounds of the event loop.
    """
    return await asyncio.to_thread(work) if size >= LARGE else work()
