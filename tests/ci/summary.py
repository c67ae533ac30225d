"""The end of a run's log: each failure's detail, one table, one line for each failure, the machine, and the counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.ci.tiers import Run
from tests.ci.verdict import Judged, Kind

MOST_LINES = 40
"""The most failures that have a line of their own, so that the table and they stay in the last 60 lines."""
MOST_DETAILS = 10


def details(judged: Sequence[Judged]) -> list[str]:
    """Tracebacks of the first failures."""
    return [
        line for each in judged[:MOST_DETAILS] for line in (f"===== {each.failure.tier}: {each.failure.id}", each.failure.detail)
    ]


def table(runs: Sequence[Run], judged: Sequence[Judged]) -> list[str]:
    """tier, passed, failed, flaked, skipped, seconds, the MiB of its largest process; then one line for each failure."""
    lines = [f"{'tier':<10}{'passed':>8}{'failed':>8}{'flaked':>8}{'skipped':>9}{'seconds':>9}{'MiB':>6}"]
    for run in runs:
        if run.not_run:
            lines.append(f"{run.tier:<10}NOT RUN: {run.not_run}")
            continue
        mine = [each for each in judged if each.failure.tier == run.tier]
        failed = sum(each.kind is Kind.FAILED for each in mine)
        peak = "" if run.peak_mib is None else run.peak_mib
        counts = (run.results.passed, failed, len(mine) - failed, run.results.skipped, round(run.seconds), peak)
        cells = (f"{count:>{width}}" for count, width in zip(counts, (8, 8, 8, 9, 9, 6), strict=True))
        lines.append(f"{run.tier:<10}{''.join(cells)}".rstrip())
    lines += [_line(each) for each in judged[:MOST_LINES]]
    if len(judged) > MOST_LINES:
        lines.append(f"FAILED and {len(judged) - MOST_LINES} more")
    return lines


def _line(judged: Judged) -> str:
    reruns = ", ".join("passed" if each else "failed" for each in judged.reruns) or "none"
    kept = "" if judged.forgiven or judged.kind is Kind.FAILED else "; NOT forgiven"
    return f"{judged.kind} {judged.failure.tier} {judged.failure.id} - {judged.failure.error} (reruns: {reruns}{kept})"


def closing(runs: Sequence[Run], judged: Sequence[Judged]) -> str:
    """The line that counts: forgiven tests passed in their reruns, and are counted so."""
    failed = sum(not each.forgiven for each in judged)
    passed = sum(run.results.passed for run in runs) + len(judged) - failed
    return f"{passed} passed, {failed} failed, {sum(run.results.skipped for run in runs)} skipped"


def note_flakes(judged: Sequence[Judged], ledger: Path, commit: str) -> None:
    """Append each flaked test to the ledger, one line of JSON each."""
    with ledger.open("a", encoding="utf-8") as file:
        for each in judged:
            if each.kind in (Kind.FLAKED, Kind.FAULT_SEEN):
                entry = {
                    "commit": commit,
                    "kind": each.kind,
                    "tier": each.failure.tier,
                    "id": each.failure.id,
                    "error": each.failure.error,
                }
                file.write(json.dumps(entry) + "\n")
