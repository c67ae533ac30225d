"""The table at the end of a run of CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ci.results import Results, peak_of
from tests.ci.summary import table
from tests.ci.tiers import Run


def test_a_row_says_what_became_of_a_tier_and_the_memory_of_its_largest_process() -> None:
    runs = [
        Run("test", Results(10, 2), 61.4, peak_mib=431),
        Run("lint", Results(), 40.0),
        Run("node", not_run="it needs root"),
    ]
    assert table(runs, ()) == [
        "tier        passed  failed  flaked  skipped  seconds   MiB",
        "test            10       0       0        2       61   431",
        "lint             0       0       0        0       40",
        "node      NOT RUN: it needs root",
    ]


@pytest.mark.parametrize(
    ("output", "peak"),
    [
        ("memory: at most 431 MiB: gw0 431, pytest 90\n1 passed\n", 431),
        ("a test printed memory: at most 7 MiB\n", None),
        ("", None),
    ],
)
def test_the_peak_is_read_from_the_output(output: str, peak: int | None, tmp_path: Path) -> None:
    (tmp_path / "test.log").write_text(output)
    assert peak_of(tmp_path / "test.log") == peak
