"""The most memory that each process of a run of tests took. The end of its output says it, and `.ci/run` shows the largest."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

_OWN = pytest.StashKey[int]()
_OF_WORKERS = pytest.StashKey[dict[str, int]]()
_STATUS = Path("/proc/self/status")
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB$", re.MULTILINE)


def note_peak(config: pytest.Config) -> None:
    """Remember the peak of this process so far, in MiB. A test that measures its own memory sets the kernel's figure back."""
    config.stash[_OWN] = max(config.stash.get(_OWN, 0), _peak())
    if (sent := getattr(config, "workeroutput", None)) is not None:
        sent["peak_mib"] = config.stash[_OWN]


def _peak() -> int:
    """Linux counts the memory of the process that started this one to ru_maxrss, and not to its own peak."""
    if _STATUS.exists() and (found := _PEAK.search(_STATUS.read_text())):
        return int(found[1]) >> 10
    # In bytes on macOS, in KiB elsewhere.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the peak of a worker that ended. One that was killed sends none."""
    sent = getattr(node, "workeroutput", None) or {}
    if "peak_mib" in sent:
        node.config.stash.setdefault(_OF_WORKERS, {})[node.gateway.id] = sent["peak_mib"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the peaks on one line."""
    note_peak(config)
    of_workers = config.stash.get(_OF_WORKERS, None) or {}
    peaks = {**of_workers, "pytest": config.stash[_OWN]}
    each = ", ".join(f"{name} {mib}" for name, mib in sorted(peaks.items()))
    terminalreporter.write_line(f"memory: at most {max(peaks.values())} MiB: {each}")
