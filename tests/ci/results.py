"""The results of one tier, read from pytest's report log, one line of JSON for each phase of a test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PEAK = re.compile(r"^memory: at most (\d+) MiB", re.MULTILINE)
"""The line of tests/support/peak_memory.py."""
LINES = 80
"""The most lines of a failure's traceback and captured output are shown."""


@dataclass(frozen=True)
class Failure:
    """One test that failed. detail: its traceback and what it printed. id: pytest's, or the command of a tier without tests."""

    tier: str
    id: str
    error: str
    detail: str = ""

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]


@dataclass(frozen=True)
class Results:
    passed: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = ()


def read(log: Path, tier: str) -> Results:
    """The results in a report log. A run that was killed has those of the tests that ended before."""
    passed: set[str] = set()
    skipped: set[str] = set()
    failures: dict[str, Failure] = {}
    for report in _reports(log):
        test, outcome = report["nodeid"], report["outcome"]
        if outcome == "failed":
            failures.setdefault(test, Failure(tier, test, *_error(report)))
        elif outcome == "skipped" and not _expected_to_fail(report):
            skipped.add(test)
        elif report.get("when") == "call":
            passed.add(test)
    return Results(len(passed - failures.keys()), len(skipped), tuple(failures.values()))


def peak_of(output: Path) -> int | None:
    """Return the most memory that a process of the run took, in MiB. None where the run does not say it."""
    found = _PEAK.findall(output.read_text("utf-8", "replace"))
    return int(found[-1]) if found else None


def _reports(log: Path) -> Iterator[dict[str, Any]]:
    if not log.exists():
        return
    for line in log.read_text("utf-8").splitlines():
        try:
            report = json.loads(line)
        except ValueError:
            continue  # the last line of a run that was killed
        if report["$report_type"] == "TestReport" or (
            report["$report_type"] == "CollectReport" and report["outcome"] == "failed"
        ):
            yield report


def _expected_to_fail(report: dict[str, Any]) -> bool:
    return "wasxfail" in report


def _error(report: dict[str, Any]) -> tuple[str, str]:
    """The first line of an error, and its detail."""
    told = report["longrepr"]
    if isinstance(told, dict):
        error = told["reprcrash"]["message"] if told.get("reprcrash") else "failed"
        lines = [line for each in told["reprtraceback"]["reprentries"] for line in each["data"]["lines"]]
    else:
        lines = str(told).splitlines() or ["failed"]
        error = lines[-1]
    for title, text in report.get("sections", ()):
        lines += [f"--- {title}", *text.splitlines()]
    shown = lines if len(lines) <= LINES else [*lines[: LINES // 2], "...", *lines[-LINES // 2 :]]
    return error.strip().partition("\n")[0][:200], "\n".join(shown)
