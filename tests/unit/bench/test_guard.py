"""The guard of speed: a row is compared with its record, twice before it fails, and a worse record needs a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.bench.guard import __main__ as guard
from tests.bench.guard import recorded
from tests.bench.guard.judging import Kind, Record, judge, key_of
from tests.bench.guard.recorded import UnexplainedError, load, renewed, save
from tests.bench.row import Better, Row, Scale

ROOT = Path(__file__).parents[3]
STEADY = (1.9, 2.0, 2.1)


def measured(ratio: float, better: Better = "lower", gate: float | None = None, work: str = "work") -> Row:
    return Row("P1", work, "bare", ratio, (ratio, ratio), better, gate)


@pytest.mark.parametrize(
    ("ratios", "better", "gate", "ratio", "kind"),
    [
        (STEADY, "lower", 3.0, 2.9, Kind.HELD),
        (STEADY, "lower", 3.0, 3.1, Kind.WORSE),
        (STEADY, "lower", 1.0, 2.0, Kind.MISSED),
        (STEADY, "lower", 1.0, 3.1, Kind.WORSE),
        (STEADY, "lower", 3.0, 1.3, Kind.BETTER),
        (STEADY, "higher", 0.4, 1.4, Kind.HELD),
        (STEADY, "higher", 0.4, 1.3, Kind.WORSE),
        (STEADY, "higher", 0.4, 3.1, Kind.BETTER),
        (STEADY, "lower", None, 2.0, Kind.HELD),
        ((1.0, 2.0, 2.4), "lower", 3.0, 3.5, Kind.UNSTEADY),
        ((1.0, 2.0, 2.4), "lower", 3.0, 3.7, Kind.WORSE),
        ((1.0, 2.0, 2.4), "lower", 3.0, 0.5, Kind.UNSTEADY),
        ((1.0, 2.0, 2.4), "higher", 0.4, 0.7, Kind.UNSTEADY),
        ((1.0, 2.0, 2.4), "higher", 0.4, 0.6, Kind.WORSE),
    ],
)
def test_a_row_is_judged_by_its_record(
    ratios: Sequence[float], better: Better, gate: float | None, ratio: float, kind: Kind
) -> None:
    row = measured(ratio, better, gate)
    (judged,) = judge([row], {key_of(row): Record(tuple(ratios), better, "abc")})
    assert judged.kind is kind


def test_a_row_without_a_record_and_a_record_without_a_row_fail() -> None:
    judged = judge([measured(1.0, work="new")], {"P1: old": Record(STEADY, "lower", "abc")})
    assert [(each.key, each.kind) for each in judged] == [("P1: new", Kind.UNRECORDED), ("P1: old", Kind.UNMEASURED)]
    assert all(each.kind.fails for each in judged)


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    records = {"P1: b": Record(STEADY, "lower", "abc"), "P1: a": Record((1.0,), "higher", "def", "2026-11-27-why.md")}
    save(records, tmp_path / "records.json")
    assert load(tmp_path / "records.json") == records
    assert load(tmp_path / "missing.json") == {}


def test_a_worse_record_needs_the_decision_that_says_why() -> None:
    row = measured(2.3)
    before = {key_of(row): Record(STEADY, "lower", "abc")}
    with pytest.raises(UnexplainedError, match="P1: work"):
        renewed(before, [[row]], "def")
    assert renewed(before, [[row]], "def", "page.md")[key_of(row)] == Record((2.3,), "lower", "def", "page.md")
    assert renewed(before, [[measured(1.5)], [measured(1.6)]], "def")[key_of(row)] == Record((1.5, 1.6), "lower", "def")


Fakes = Callable[..., list[str]]


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fakes:
    """Gives two benchmarks the ratios of their measurements, and returns the names of those that ran."""

    def fake(**ratios: Sequence[float]) -> list[str]:
        ran: list[str] = []

        def of(name: str, left: Iterator[float]) -> Callable[[Scale], Sequence[Row]]:
            def benchmark(scale: Scale) -> Sequence[Row]:
                ran.append(name)
                return (measured(next(left), work=name),)

            return benchmark

        monkeypatch.setattr(guard, "ROWS", tuple(ratios))
        monkeypatch.setattr(guard, "BENCHMARKS", {name: of(name, iter(each)) for name, each in ratios.items()})
        return ran

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recorded, "FILE", tmp_path / "records.json")
    monkeypatch.setattr(guard, "tune_collector", lambda: None)
    for name in ("ROWS", "RECORD", "WHY"):
        monkeypatch.delenv(name, raising=False)
    save({"P1: a": Record(STEADY, "lower", "abc"), "P1: b": Record(STEADY, "lower", "abc")}, tmp_path / "records.json")
    return fake


@pytest.mark.parametrize(("measured", "code"), [([4.0, 2.0], 0), ([4.0, 4.0, 4.0, 2.0], 0), ([4.0, 4.0, 4.0, 4.0], 1)])
def test_what_is_worse_is_measured_again_and_fails_if_it_is_worse_each_time(
    fakes: Fakes, capsys: pytest.CaptureFixture[str], measured: Sequence[float], code: int
) -> None:
    ran = fakes(a=[2.0], b=measured)
    assert guard.main() == code
    assert ran == ["a", *("b" for _ in measured)]
    assert ("P1: b: 4.00x, recorded 2.00x (abc): WORSE" in capsys.readouterr().out) is (code == 1)


def test_one_row_can_be_guarded_alone(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = fakes(a=[2.0], b=[9.0])
    monkeypatch.setenv("ROWS", "a")
    assert (guard.main(), ran) == (0, ["a"])


def test_recording_takes_the_runs_and_forgets_rows_that_are_gone(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fakes(a=[1.0, 1.2])
    monkeypatch.setattr(guard, "commit", lambda: "def")
    monkeypatch.setenv("RECORD", "2")
    assert guard.main() == 0
    assert load(tmp_path / "records.json") == {"P1: a": Record((1.0, 1.2), "lower", "def")}


def test_each_record_has_ten_runs_and_a_worse_one_a_decision_that_exists() -> None:
    records = load()
    assert len(records) >= len(guard.ROWS)
    for key, record in records.items():
        assert len(record.ratios) >= 10, key
        assert not record.why or (ROOT / "docs" / "decisions" / record.why).is_file(), key
