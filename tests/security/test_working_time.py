"""The clock of the bounds stands for other processes' work, and for nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.security.working_time import working_time

HOGS_PER_CPU = 4


@contextmanager
def busy_machine() -> Iterator[None]:
    hogs = [
        subprocess.Popen([sys.executable, "-c", "print('up', flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
        for _ in range(HOGS_PER_CPU * len(os.sched_getaffinity(0)))
    ]
    try:
        for each in hogs:
            assert each.stdout is not None
            each.stdout.readline()
        yield
    finally:
        for each in hogs:
            each.kill()
            each.communicate()


def test_it_counts_what_a_server_sleeps() -> None:
    began = working_time()
    time.sleep(0.3)
    assert working_time() - began >= 0.29


def test_it_counts_what_a_server_computes() -> None:
    began, used = working_time(), time.thread_time()
    while time.thread_time() - used < 0.3:
        pass
    assert working_time() - began >= 0.29


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the kernel does not count waits for a CPU")
def test_it_stands_while_others_have_the_cpu() -> None:
    with busy_machine():
        began, working = time.monotonic(), working_time()
        while time.monotonic() - began < 1.0:
            pass
        assert working_time() - working < 0.8 * (time.monotonic() - began)
