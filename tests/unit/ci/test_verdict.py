"""Reruns say what a failed test means, and whether it is forgiven."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.ci import quarantine
from tests.ci.results import Failure
from tests.ci.verdict import MOST_RERUN, Kind, judge, to_rerun

PLAIN = "tests/unit/test_a.py::test_x"
OTHER = "tests/unit/test_b.py::test_y"
THIRD = "tests/unit/test_c.py::test_z"
CRASH = "tests/crash/test_kills.py::test_k"
PASSED, SPLIT = (True, True, True), (True, False)
NONE: frozenset[str] = frozenset()


def failures(*ids: str) -> list[Failure]:
    return [Failure("test", each, "AssertionError") for each in ids]


@pytest.mark.parametrize(
    ("test", "reruns", "kind"),
    [
        pytest.param(PLAIN, PASSED, Kind.FLAKED, id="three passes"),
        pytest.param(PLAIN, SPLIT, Kind.FAILED, id="a rerun that fails"),
        pytest.param(PLAIN, (), Kind.FAILED, id="no rerun"),
        pytest.param(CRASH, PASSED, Kind.FAULT_SEEN, id="three passes of a crash test"),
        pytest.param("tests/security/test_a.py::test_x", PASSED, Kind.FAULT_SEEN, id="three passes of a security test"),
        pytest.param("tests/unit/test_tenancy.py::test_x", PASSED, Kind.FAULT_SEEN, id="three passes of a tenancy test"),
        pytest.param(CRASH, SPLIT, Kind.FAILED, id="a crash test that fails again"),
    ],
)
def test_reruns_say_what_a_failure_is(test: str, reruns: tuple[bool, ...], kind: Kind) -> None:
    (judged,) = judge(failures(test), {test: reruns}, lambda _: False, NONE)
    assert judged.kind is kind
    assert judged.forgiven is (kind is not Kind.FAILED)


def test_two_flaked_tests_are_forgiven_and_with_a_third_none_is() -> None:
    two = judge(failures(PLAIN, OTHER), {PLAIN: PASSED, OTHER: PASSED}, lambda _: False, NONE)
    three = judge(failures(PLAIN, OTHER, CRASH), {PLAIN: PASSED, OTHER: PASSED, CRASH: PASSED}, lambda _: False, NONE)
    assert [each.forgiven for each in two] == [True, True]
    assert [each.forgiven for each in three] == [False, False, False]


def test_a_fault_in_a_touched_test_is_not_forgiven() -> None:
    (judged,) = judge(failures(CRASH), {CRASH: PASSED}, lambda file: file == "tests/crash/test_kills.py", NONE)
    assert (judged.kind, judged.forgiven) == (Kind.FAULT_SEEN, False)


def test_a_quarantined_test_is_forgiven_and_does_not_count_as_flaked() -> None:
    judged = judge(failures(PLAIN, OTHER, THIRD), {OTHER: PASSED, THIRD: PASSED}, lambda _: False, frozenset({PLAIN}))
    assert [each.kind for each in judged] == [Kind.QUARANTINED, Kind.FLAKED, Kind.FLAKED]
    assert all(each.forgiven for each in judged)


def test_a_few_failures_are_run_again() -> None:
    assert [each.id for each in to_rerun(failures(PLAIN, OTHER), frozenset({OTHER}))] == [PLAIN]


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([f"tests/a.py::test_{number}" for number in range(MOST_RERUN + 1)], id="too many"),
        pytest.param([PLAIN, "make slow"], id="a tier that did not end"),
        pytest.param([PLAIN, "tests/unit/test_b.py"], id="a module that cannot be imported"),
    ],
)
def test_systemic_failures_are_not_run_again(ids: list[str]) -> None:
    assert to_rerun(failures(*ids), NONE) == ()


def written(folder: Path, *entries: tuple[str, str]) -> Path:
    text = [
        f'[[test]]\nid = "tests/a.py::test_{number}"\nerror = "e"\nsince = {since}\nuntil = {until}\nknown = "k"\n'
        for number, (since, until) in enumerate(entries)
    ]
    file = folder / "quarantine.toml"
    file.write_text("\n".join(text))
    return file


def test_the_quarantine_of_this_tree_keeps_its_rules() -> None:
    quarantine.read(Path(__file__).parents[2] / "quarantine.toml")


def test_an_entry_is_in_force_until_its_last_day(tmp_path: Path) -> None:
    entries = quarantine.read(written(tmp_path, ("2026-11-01", "2026-11-15")))
    assert quarantine.in_force(entries, date(2026, 11, 15)) == {"tests/a.py::test_0"}
    assert quarantine.in_force(entries, date(2026, 11, 16)) == NONE


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([("2026-11-01", "2026-11-16")], id="longer than 14 days"),
        pytest.param([("2026-11-02", "2026-11-01")], id="ends before it begins"),
        pytest.param([("2026-11-01", "2026-11-02")] * 9, id="nine tests"),
    ],
)
def test_a_quarantine_that_breaks_its_rules_is_refused(entries: list[tuple[str, str]], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"quarantine\.toml"):
        quarantine.read(written(tmp_path, *entries))
