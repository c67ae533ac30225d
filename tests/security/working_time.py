"""The time that a thread had for its work, for bounds that must hold on a busy machine, too."""

from __future__ import annotations

import time
from pathlib import Path


def working_time() -> float:
    """Return the seconds of a clock that stands while this thread could run and other work has the CPU.

    It goes on while the thread computes, sleeps, or waits for a lock or a file: a server that is slow by itself stays slow by
    this clock. If the kernel does not count a thread's waits for a CPU, it is the monotonic clock.
    """
    waited, now = _waited_for_cpu()
    return now - waited


def _waited_for_cpu() -> tuple[float, float]:
    """Return the seconds that this thread has waited for a CPU, and the monotonic time at which that was so.

    A thread that waits between two reads of the clock makes them differ from the count: it is read again.
    """
    while True:
        before = _counted_waits()
        now = time.monotonic()
        if _counted_waits() == before:
            return before, now


def _counted_waits() -> float:
    try:
        counted = Path("/proc/thread-self/schedstat").read_text()
    except OSError:
        return 0.0
    return int(counted.split()[1]) / 1e9  # nanoseconds on a run queue; see Documentation/scheduler/sched-stats.rst
