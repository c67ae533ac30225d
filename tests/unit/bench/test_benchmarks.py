"""Each benchmark runs, at a tiny size; its figures mean nothing then. The guard runs its own rows in each run of CI."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.bench.catalogue import BENCHMARKS
from tests.bench.guard.__main__ import ROWS as GUARDED
from tests.bench.row import Row, Scale, Times, Took, interleaved, row
from tests.bench.rows import bulk, listening, measure
from tests.bench.rows.server import Server
from tests.bench.table import markdown

TINY = 0.004
COMPARED = {"p27", "p28", "p29", "p31"}
"""They need wrk, and most PocketBase, whose build takes minutes. `make bench` runs them in any case."""
PARTS = {
    "p25": frozenset({"nothing", "keep-alives", "slow exports"}),
    "p25-apart": frozenset({"keep-alives"}),
    "h3": frozenset({"nothing", "reads", "installs"}),
    "fleet": frozenset({"1000", "10000"}),
    "locks": frozenset({"adds an index", "widens a text"}),
}
"""Parts of a benchmark that are enough here. tests/scenario/data/test_short_steps.py runs the attacks, and nearly all of them."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.compared] * (name in COMPARED)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(each, marks=_marks(each)) for each in BENCHMARKS if each not in GUARDED])
def test_a_benchmark_measures_both_sides(name: str, tmp_path: Path) -> None:
    rows = BENCHMARKS[name](Scale(tmp_path, share=TINY, repetitions=1, only=PARTS.get(name, frozenset())))

    assert rows
    for each in rows:
        assert each.spread[0] <= each.ratio <= each.spread[1]
        assert all(each.figures)


def test_a_rate_is_better_when_it_is_higher_and_a_time_when_it_is_lower() -> None:
    twice_as_long = Times([Took(2.0, 3.0)] * 3, [Took(1.0, 2.0)] * 3)

    assert row("P", "work", "bare", twice_as_long, "lower", 1.9).ratio == 2.0
    assert row("P", "work", "bare", twice_as_long, "higher", 0.4, amount=10).ratio == 0.5


@pytest.mark.parametrize(
    ("better", "ratio", "gate", "passed"),
    [
        ("lower", 3.0, 3.0, True),
        ("lower", 3.1, 3.0, False),
        ("higher", 0.4, 0.4, True),
        ("higher", 0.39, 0.4, False),
        ("lower", 99.0, None, True),
    ],
)
def test_a_gate_is_kept_up_to_its_bound(better: str, ratio: float, gate: float | None, passed: bool) -> None:
    assert Row("P", "work", "bare", ratio, (ratio, ratio), better, gate).passed is passed  # type: ignore[arg-type]


def test_the_ratio_is_of_medians_and_the_spread_of_single_repetitions() -> None:
    times = Times([Took(1.0), Took(2.0), Took(9.0)], [Took(1.0), Took(1.0), Took(3.0)])

    measured = row("P", "work", "bare", times, "lower", None)

    assert (measured.ratio, measured.spread) == (2.0, (1.0, 3.0))


def test_both_sides_take_turns_and_the_first_pair_warms_up() -> None:
    ran: list[str] = []

    def side(name: str) -> Took:
        ran.append(name)
        return Took(float(len(ran)))

    times = interleaved(lambda: side("ours"), lambda: side("theirs"), 2)

    assert ran == ["theirs", "ours", "ours", "theirs", "theirs", "ours"]
    assert [took.wall for took in times.subject] == [3.0, 6.0]


def test_each_row_of_the_data_path_shows_its_p99_and_its_memory() -> None:
    took, ms = [Took(0.1, 0.1)] * 3, {"one": [4.0, 5.0, 9.0]}
    ours, bare = (Server(name, os.getpid(), "", {}, {}, ms) for name in ("Tenantry", "bare"))
    heard = {"p50": 0.1, "p99": 0.2, "longest": 0.3, "rate": 100.0, "cpu": 1.0, "expected": 7, "delivered": 7}

    rows = [
        measure.row_of("P28", "one row", "one", ours, measure.Against(bare, "bare"), dict.fromkeys(("Tenantry", "bare"), took)),
        bulk.row_of(Times(took, took), 1000, 64 << 20),
        listening.row_of([heard], 1000, "SQLite", 64 << 20),
    ]

    for line, p99 in zip(markdown(rows).splitlines()[2:], ("5.0 ms of 5.0 ms", "100.0 ms of 100.0 ms", "200.0 ms"), strict=True):
        assert f"p99 {p99}" in line and re.search(r"memory \d+ MiB", line), line


def test_a_missed_gate_is_told_in_the_table() -> None:
    missed = Row("P16", "YAML to Ready", "libyaml", 3.5, (3.0, 4.0), "lower", 3.0, ("1 s", "2 s"))

    assert "| <= 3x missed |" in markdown([missed])
