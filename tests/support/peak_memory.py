"""The most memory that each process of a run of tests took. The end of its output says it, and `.ci/run` shows the largest."""

from __future__ import annotations

import resource
import sys
from typing import Any

import pytest

_OWN = pytest.StashKey[int]()
_OF_WORKERS = pytest.StashKey[dict[str, int]]()
_IN_A_MIB = 1 << 20 if sys.platform == "darwin" else 1 << 10
"""The unit of ru_maxrss is the byte there, and the KiB elsewhere."""


def note_peak(config: pytest.Config) -> None:
    """Remember the peak of this process so far, in MiB. A test that measures its own memory sets the kernel's figure back."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _IN_A_MIB
    config.stash[_OWN] = max(config.stash.get(_OWN, 0), peak)
    if (sent := getattr(config, "workeroutput", None)) is not None:
        sent["peak_mib"] = config.stash[_OWN]


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
