"""The time slices of the event loop's thread, as the kernel has them."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenantry.cli.processes.prompt_thread import SLICE_NS, shorten_slices

GET = {"x86_64": 315, "aarch64": 275}
"""The number of the call sched_getattr."""
RELEASE = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2] if part.isdecimal())

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in GET or RELEASE < (6, 12), reason="slices are of Linux 6.12 and later"
)


def slice_ns() -> int:
    """The calling thread's."""
    found = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(GET[platform.machine()], 0, found, len(found), 0) == 0
    return int(struct.unpack("=IIQiIQQQ", found.raw)[5])


def in_a_thread(work: Callable[[], None]) -> None:
    """pytest's own thread keeps its slices."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(work).result()


def test_the_calling_thread_has_short_slices_and_those_that_it_starts_have_usual_ones() -> None:
    def work() -> None:
        usual, nice = slice_ns(), os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        assert shorten_slices()
        assert shorten_slices(), "a second server of the same thread asks again"
        assert slice_ns() == SLICE_NS < usual
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == nice
        started: list[int] = []
        in_a_thread(lambda: started.append(slice_ns()))
        assert started == [usual]

    in_a_thread(work)


def test_a_policy_that_the_process_was_started_with_stays() -> None:
    def work() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        assert not shorten_slices()
        assert os.sched_getscheduler(0) == os.SCHED_BATCH

    in_a_thread(work)
