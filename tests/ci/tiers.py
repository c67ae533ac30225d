"""The tiers of `.ci/run`, and how one of them is run: by its target of make, with a time limit, its output in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.ci.results import Failure, Results, peak_of, read

GRACE_S = 30.0
"""Time for a tier that took too long to write what it knows."""
SHOWN = 30
"""The most lines of the output are shown where no test says what failed."""


@dataclass(frozen=True)
class Tier:
    name: str
    minutes: int
    tests: bool = True


@dataclass(frozen=True)
class Run:
    """The end of a tier. not_run: why it did not begin, or empty. peak_mib: the most memory of one of pytest's processes."""

    tier: str
    results: Results = field(default_factory=Results)
    seconds: float = 0.0
    not_run: str = ""
    peak_mib: int | None = None


TIERS = (
    Tier("lint", 15, tests=False),
    Tier("test", 40),
    Tier("bench-guard", 15, tests=False),
    Tier("slow", 60),
    Tier("cluster", 40),
    Tier("node", 30),
)


def run(tier: Tier, out: Path, seconds: float, name: str = "", arguments: Sequence[str] = ()) -> Run:
    """Run one tier, at most so long. Its output and its report are in `out`, under `name` or its own.

    A tier that fails without a failed test, because it was too slow or could not begin, has one failure that names its command.
    """
    log, report = out / f"{name or tier.name}.log", out / f"{name or tier.name}.jsonl"
    report.unlink(missing_ok=True)
    command = ["make", tier.name, *([f"REPORT={report}"] if tier.tests else ()), *arguments]
    # A make above this one hands its variables down, its report among them.
    own = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key not in ("REPORT", "TESTS")}
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=own, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        code = _ended(process, seconds)
    results = read(report, tier.name)
    if code != 0 and not results.failures:
        why = f"took longer than {seconds:.0f} s" if code is None else f"ended with {code}"
        last = "\n".join(log.read_text("utf-8", "replace").splitlines()[-SHOWN:])
        results = Results(results.passed, results.skipped, (Failure(tier.name, f"make {tier.name}", why, last),))
    elif code is None:
        late = Failure(tier.name, f"make {tier.name}", f"took longer than {seconds:.0f} s")
        results = Results(results.passed, results.skipped, (*results.failures, late))
    return Run(tier.name, results, time.monotonic() - began, peak_mib=peak_of(log))


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code, or None for a process that was ended because it took too long."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        _kill(process)
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
