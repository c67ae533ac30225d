"""A commit always runs the same part of a table, and others run the other parts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import turns


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    turns._tree.cache_clear()
    yield
    turns._tree.cache_clear()


def of(commit: str, monkeypatch: pytest.MonkeyPatch, table: str = "a table", parts: int = 6) -> int:
    monkeypatch.setenv(turns.VARIABLE, commit)
    turns._tree.cache_clear()
    return turns.turn(table, parts)


def test_each_part_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {of(f"{number:040x}", monkeypatch) for number in range(60)} == set(range(6))


def test_a_tree_has_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({of("1" * 40, monkeypatch) for _ in range(3)}) == 1


def test_tables_take_turns_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = [f"{number:040x}" for number in range(20)]
    assert [of(each, monkeypatch, "one") for each in commits] != [of(each, monkeypatch, "another") for each in commits]


def test_it_is_that_of_the_tree_that_is_checked_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(turns.VARIABLE, raising=False)
    monkeypatch.setattr(turns, "HERE", tmp_path)
    git(tmp_path, "init", "-q")
    for number in range(2):
        (tmp_path / "a.txt").write_text(f"{number}")
        git(tmp_path, "add", "a.txt")
        git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", f"{number}")
        turns._tree.cache_clear()
        assert turns._tree() == git(tmp_path, "rev-parse", "HEAD^{tree}")


def test_without_history_all_have_one_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(turns.VARIABLE, raising=False)
    monkeypatch.setattr(turns, "HERE", tmp_path)
    assert turns._tree() == ""


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
