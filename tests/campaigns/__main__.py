"""Run the fault and attack campaigns at full count, and write their table into docs/reliability.md.

`python -m tests.campaigns` runs all rows, `python -m tests.campaigns R3 S8` runs two of them and keeps the others' results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.campaigns import measured, page
from tests.campaigns.measured import Measured, MeasuredPart
from tests.campaigns.rows import ROWS, Row
from tests.campaigns.scale import VARIABLE

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Return 0 when every row that was asked for passed. Without CI=true a row whose part is missing is only reported."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW", help="rows to run, such as R3 S8; default: all")
    parser.add_argument("--workers", default="2", help="pytest workers; default: 2")
    parser.add_argument("--table", action="store_true", help="only write the table anew, from the last measurements")
    asked = parser.parse_args()
    if asked.table:
        page.write(measured.load())
        return 0
    if unknown := sorted({*asked.rows} - {*ROWS}):
        parser.error(f"unknown rows {', '.join(unknown)}; there are {', '.join(ROWS)}")
    ended = 0
    for row in (ROWS[id_] for id_ in asked.rows if ROWS[id_].parts):
        found = run(row, asked.workers)
        kept = {**measured.load(), row.id: found}
        measured.save(kept)
        page.write(kept)
        verdict = found.verdict(row)
        print(f"{row.id}: {verdict}: {[part.count for part in found.parts]} in {found.seconds} s", flush=True)
        missing = verdict.startswith("not run") and os.environ.get("CI") != "true"
        ended |= verdict != "passed" and not missing
    return ended


def run(row: Row, workers: str) -> Measured:
    """Run the tests of a row."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        files = sorted({each.file for part in row.parts for each in part.tests})
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "-n", workers if row.spread else "0"),
            *("-p", "tests.campaigns.plugin", f"--campaign-row={row.id}", f"--campaign-report={report}", *files),
        ]
        settings = {**os.environ, VARIABLE: "full", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'operator'}"}
        began = time.monotonic()
        ended = subprocess.run(command, cwd=ROOT, env=settings, check=False).returncode
        seconds = round(time.monotonic() - began)
        parts = json.loads(report.read_text()) if report.exists() else [{} for _ in row.parts]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Measured(now, _commit(), seconds, ended, [MeasuredPart(**part) for part in parts])


def _commit() -> str:
    """Return the short name of the commit, with `+` when files differ from it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    written = [f":!{path.relative_to(ROOT)}" for path in (page.PAGE, measured.FILE)]
    status = ["git", "status", "--porcelain", "--untracked-files=no", *written]
    changed = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return head.stdout.strip() + ("+" if changed.strip() else "")


if __name__ == "__main__":
    raise SystemExit(main())
