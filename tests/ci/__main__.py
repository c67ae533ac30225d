"""Run all tiers, whatever became of the one before, run failed tests again, and print one verdict. `.ci/run` calls it.

Exits 0 where nothing failed that is not forgiven, and 1 otherwise. Arguments choose tiers by name.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.ci import machine, quarantine, summary
from tests.ci.reruns import rerun
from tests.ci.tiers import TIERS, Run, Tier, run
from tests.ci.verdict import Judged, judge, to_rerun

OUT = Path(".ci/out")
BUDGET_S = 75 * 60.0
"""A tier that has not begun by then is not run."""
END_S = 84 * 60.0
"""Everything has ended by then."""
NODE = "bin/kubelet"


def main(names: list[str]) -> int:
    began = time.monotonic()
    OUT.mkdir(parents=True, exist_ok=True)
    entries = quarantine.read(Path("tests/quarantine.toml"))
    quarantined = quarantine.in_force(entries, machine.commit_day())

    def left() -> float:
        return END_S - (time.monotonic() - began)

    print(machine.described(), flush=True)
    runs = [_run(tier, left) for tier in TIERS if not names or tier.name in names]
    failures = [each for tier in runs for each in tier.results.failures]
    again = to_rerun(failures, quarantined)
    for each in again:
        print(f"{each.tier}: run again: {each.id}", flush=True)
    touched = machine.touched_files()
    judged = judge(failures, rerun(again, OUT, left), touched.__contains__, quarantined)
    summary.note_flakes(judged, OUT / "flakes.jsonl", os.environ.get("CI_COMMIT", "HEAD"))
    return _told(runs, judged)


def _run(tier: Tier, left: Callable[[], float]) -> Run:
    why = _not_run(tier, END_S - left())
    if why:
        print(f"{tier.name}: NOT RUN: {why}", flush=True)
        return Run(tier.name, not_run=why)
    print(f"{tier.name}: begun at {time.strftime('%H:%M:%S')}", flush=True)
    done = run(tier, OUT, min(tier.minutes * 60.0, left()))
    print(
        f"{tier.name}: {done.results.passed} passed, {len(done.results.failures)} failed tests after {done.seconds:.0f} s",
        flush=True,
    )
    return done


def _not_run(tier: Tier, elapsed: float) -> str:
    if elapsed > BUDGET_S:
        return f"{elapsed / 60:.0f} minutes had passed before it; a run begins no tier after {BUDGET_S / 60:.0f}"
    if tier.name == "node" and os.getuid() != 0:
        return "it needs root"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if tier.name == "node" and not (Path(os.environ.get("KNODE_DIR") or cache / "knode") / NODE).exists():
        return "the binaries of a node are missing; tests/cluster/test_node.py says how to build them"
    return ""


def _told(runs: list[Run], judged: tuple[Judged, ...]) -> int:
    lines = [*summary.details(judged), *summary.table(runs, judged), machine.described(), summary.closing(runs, judged)]
    print("\n".join(lines), flush=True)
    return 0 if all(each.forgiven for each in judged) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
