"""Freed memory goes back to the machine: the C library keeps it when anything later in its heap is still in use.

Without this, a process stays at its peak after one large plan or request body.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD_S = 10.0
"""A trim takes about 5 ms for 100 MiB, in its own thread and without Python's lock."""
START_S = 1.0
"""The first trim comes so soon: of an engine's start, 0.7 of 15 MiB are free that a process at rest would keep."""
MOVED = 4 << 20
"""The bytes by which a process that works grows or shrinks."""
_M_ARENA_MAX = -8
"""The number of mallopt's option in malloc.h."""
ROUNDS = 12
"""Trims after the last time that it did: what it freed last is returned, and a process that rests costs nothing. It frees for a
minute after a wave of deletions: the sweep of Operations comes each minute, and memory that is freed is still resident."""
_STATM = Path("/proc/self/statm")


def resident() -> int:
    """Return the bytes of this process that are in memory. Raises OSError where the system does not say it."""
    return int(_STATM.read_text().split()[1]) * mmap.PAGESIZE


class Trimming:
    """Decides at each look whether memory is to be returned."""

    def __init__(self, resident: Callable[[], int], trim: Callable[[], object]) -> None:
        """resident: bytes in memory; trim: returns what is free."""
        self._resident = resident
        self._trim = trim
        self._left = 0
        self._last = resident()

    def look(self) -> None:
        """Trim while the process works, and for some rounds afterwards."""
        if abs(self._resident() - self._last) >= MOVED:
            self._left = ROUNDS
        if self._left:
            self._left -= 1
            self._trim()
            self._last = self._resident()


def share_one_heap() -> None:
    """Let all threads that start from now on share a heap. Does nothing where the C library has no such option.

    The C library makes up to eight heaps for each core, and trims the end of the first one only: each of the others keeps what
    its threads freed last, such as the 19 MiB of a password's hash.
    """
    if setting := getattr(ctypes.CDLL(None), "mallopt", None):
        setting(_M_ARENA_MAX, 1)


@contextmanager
def freed_memory_returned(period_s: float = PERIOD_S) -> Iterator[None]:
    """Return freed memory until the end of the block. Does nothing where the C library has no such function, as on macOS."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None or not _STATM.exists():
        yield
        return
    share_one_heap()
    ended = threading.Event()
    trimming = Trimming(resident, lambda: trim(0))

    def work() -> None:
        if not ended.wait(min(START_S, period_s)):
            trim(0)
        while not ended.wait(period_s):
            trimming.look()

    threading.Thread(target=work, name="freed memory", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
