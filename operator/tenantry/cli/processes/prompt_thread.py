"""The event loop's thread has short time slices: it interrupts threads that compute as soon as something comes for it.

Linux lets a thread compute for some milliseconds before another, unless that one asks for shorter slices. All threads get the
same share of the processors either way.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading

SLICE_NS = 100_000
"""The shortest slice that Linux accepts (0.1 ms)."""
_CALLS = {"x86_64": 314, "aarch64": 274}
"""The number of the call sched_setattr, by machine: the C library has no function for it."""
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
_RESET_ON_FORK = 1
"""Threads and processes that this thread starts have usual slices."""


def shorten_slices() -> bool:
    """Give the calling thread short time slices. Return False where that is not possible, or where it was started with a policy.

    Linux takes them into account since 6.12. Before that nothing changes.
    """
    call = _CALLS.get(platform.machine())
    if sys.platform != "linux" or call is None:
        return False
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, SLICE_NS, 0, 0)
    done: int = ctypes.CDLL(None).syscall(call, 0, attributes, 0)
    return done == 0
