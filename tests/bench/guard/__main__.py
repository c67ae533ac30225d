"""`make bench-guard`: measure the rows that a change can make slower, and compare them with docs/benchmarks.json.

RECORD=10 measures so many runs, every second one beside a busy process, and records them. WHY names the file in docs/decisions
that explains a worse figure. ROWS="p11 p15" measures these alone, and leaves the records of others as they are.
Exits 1 where a row is worse than recorded whenever it is measured, or has no record.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext

from tenantry.cli.processes.serving import tune_collector
from tests.bench.catalogue import BENCHMARKS
from tests.bench.command import on_disk
from tests.bench.guard import recorded
from tests.bench.guard.judging import Kind, judge, key_of
from tests.bench.row import Row, Scale
from tests.ci.shake import busy_cores

ROWS = ("p07", "p09", "p11", "p14", "p15", "p16", "p17", "p18", "p30")
REPETITIONS = 3
SHARES = {"p15": 0.5, "p16": 0.5}
"""Of the full size. These two took half of the time; docs/decisions/2026-11-27-guard-of-speed.md."""
MEASURED = 4
"""So often at most. A commit that is slower is slower each time, and a machine that others keep busy is not."""


def main() -> int:
    """Return the exit code of make."""
    names = os.environ.get("ROWS", "").split() or ROWS
    tune_collector()  # as `up` does
    times = int(os.environ.get("RECORD") or 0)
    return _record(names, times) if times else _guard(names)


def _guard(names: Sequence[str]) -> int:
    records = recorded.load()
    rows: dict[str, list[Row]] = {name: _measured(name) for name in names}
    for name in names:
        for _ in range(MEASURED - 1):
            if not any(each.kind is Kind.WORSE for each in judge(rows[name], records)):
                break
            print(f"{name} is worse than recorded: measured again", flush=True)
            rows[name] = _measured(name)
    judged = judge([row for each in rows.values() for row in each], records)
    ours = [each for each in judged if each.row or set(names) == set(ROWS)]
    for each in ours:
        print(each.sentence())
    return 1 if any(each.kind.fails for each in ours) else 0


def _record(names: Sequence[str], times: int) -> int:
    runs: list[list[Row]] = []
    for number in range(times):
        with busy_cores(1) if number % 2 else nullcontext():
            runs.append([row for name in names for row in _measured(name)])
        print(f"run {number + 1} of {times}: {', '.join(f'{row.id} {row.ratio:.2f}x' for row in runs[-1])}", flush=True)
    try:
        records = recorded.renewed(recorded.load(), runs, commit(), os.environ.get("WHY", ""))
    except recorded.UnexplainedError as worse:
        print(worse, file=sys.stderr)
        return 1
    if set(names) == set(ROWS):
        keys = {key_of(row) for row in runs[-1]}
        records = {key: record for key, record in records.items() if key in keys}
    recorded.save(records)
    return 0


def commit() -> str:
    """Return the short name of the commit that is measured."""
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def _measured(name: str) -> list[Row]:
    began = time.monotonic()
    with on_disk() as folder:
        rows = list(BENCHMARKS[name](Scale(folder, SHARES.get(name, 1.0), REPETITIONS)))
    print(f"{name} took {time.monotonic() - began:.0f} s", flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
