"""The figures that rows had when they were recorded: docs/benchmarks.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.guard.judging import Record, key_of
from tests.bench.row import Row

FILE = Path(__file__).parents[3] / "docs" / "benchmarks.json"
NOTICEABLE = 1.1
"""A figure that is so many times worse than the one before needs a reason."""


class UnexplainedError(Exception):
    """A record would become worse, and no decision says why."""


def load(file: Path | None = None) -> dict[str, Record]:
    """Return the records by their rows' keys; none where there is no file."""
    file = file or FILE
    if not file.exists():
        return {}
    return {
        key: Record(tuple(entry["ratios"]), entry["better"], entry["commit"], entry.get("why", ""))
        for key, entry in json.loads(file.read_text("utf-8")).items()
    }


def renewed(records: Mapping[str, Record], runs: Sequence[Sequence[Row]], commit: str, why: str = "") -> dict[str, Record]:
    """Return the records after some runs of all their rows. why: the decision's file in docs/decisions.

    Raises UnexplainedError for rows that became noticeably worse without one.
    """
    made = dict(records)
    ratios: dict[str, list[float]] = {}
    for row in (row for run in runs for row in run):
        ratios.setdefault(key_of(row), []).append(round(row.ratio, 3))
        made[key_of(row)] = Record(tuple(ratios[key_of(row)]), row.better, commit)
    worse = {key for key in ratios if key in records and records[key].times_worse(made[key].ratio) > NOTICEABLE}
    if worse and not why:
        raise UnexplainedError(f"these are worse than recorded; name the decision that says why: {'; '.join(sorted(worse))}")
    return made | {key: Record(made[key].ratios, made[key].better, commit, why) for key in worse}


def save(records: Mapping[str, Record], file: Path | None = None) -> None:
    """Write the records, one line for each row, so that a change of one is a change of one line."""
    lines = (f"  {json.dumps(key)}: {json.dumps(_entry(record))}" for key, record in sorted(records.items()))
    (file or FILE).write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def _entry(record: Record) -> dict[str, object]:
    entry: dict[str, object] = {
        "ratio": round(record.ratio, 3),
        "better": record.better,
        "ratios": record.ratios,
        "spread": round(record.spread, 3),
        "commit": record.commit,
    }
    return entry | ({"why": record.why} if record.why else {})
