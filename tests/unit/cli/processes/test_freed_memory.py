"""Freed memory goes back to the machine while a process works, and a process that rests is left alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenantry.cli import processes
from tenantry.cli.processes.freed_memory import MOVED, ROUNDS, Trimming

PROCESSES = sorted(path for path in Path(processes.__path__[0]).rglob("*.py") if re.search(r"\btraced\(\"", path.read_text()))
FREED = """
import sys, time
from tenantry.cli.processes.freed_memory import freed_memory_returned, resident
with freed_memory_returned(period_s=0.05):
    before = resident()
    held = [bytes(1000) for _ in range(200_000)]
    peak = resident()
    # What stays is all over the heap, as the objects of a process are that works.
    held = held[::2_000]
    end = time.monotonic() + 60
    while resident() > before + (peak - before) // 4 and time.monotonic() < end:
        time.sleep(0.05)
    print(peak - before > 150 << 20, resident() < before + (peak - before) // 4)
"""

FREED_BY_THREADS = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from tenantry.cli.processes.freed_memory import freed_memory_returned, resident

def work(_):
    return len(b"x" * (19 << 20))

with freed_memory_returned(period_s=0.05), ThreadPoolExecutor(4) as threads:
    before = resident()
    list(threads.map(work, range(400)))
    end = time.monotonic() + 60
    while resident() > before + (8 << 20) and time.monotonic() < end:
        time.sleep(0.05)
    print(resident() - before < 8 << 20)
"""


class Process:
    """A process of so many MiB, which counts its trims."""

    def __init__(self) -> None:
        self.mib, self.trims = 100, 0
        self.trimming = Trimming(lambda: self.mib << 20, self._trim)

    def _trim(self) -> None:
        self.trims += 1

    def look(self, times: int = 1) -> int:
        """The number of trims in so many looks."""
        before = self.trims
        for _ in range(times):
            self.trimming.look()
        return self.trims - before


def test_a_process_that_rests_is_not_trimmed() -> None:
    assert Process().look(100) == 0


@pytest.mark.parametrize("mib", [100 + (MOVED >> 20), 100 - (MOVED >> 20)])
def test_a_process_that_grew_or_shrank_is_trimmed_some_times(mib: int) -> None:
    process = Process()
    process.mib = mib
    assert process.look(100) == ROUNDS


def test_a_process_that_works_is_trimmed_at_each_look() -> None:
    process = Process()
    for mib in range(200, 300, 5):
        process.mib = mib
        assert process.look() == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no malloc_trim")
def test_memory_that_is_freed_between_blocks_in_use_is_returned() -> None:
    ended = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout, ended.stderr) == ("True True\n", "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no malloc_trim")
def test_memory_that_threads_free_is_returned() -> None:
    ended = subprocess.run([sys.executable, "-c", FREED_BY_THREADS], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout, ended.stderr) == ("True\n", "")


def test_each_process_returns_its_memory() -> None:
    assert len(PROCESSES) == 5
    assert [path.name for path in PROCESSES if "freed_memory_returned()" not in path.read_text()] == []
