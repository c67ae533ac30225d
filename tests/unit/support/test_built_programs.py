"""A program is built once, is complete when it is seen, and is built again when its pins change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.built_programs import MissingProgram, built_once, fingerprint, go_build


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "go").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    (programs / "go").chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(programs))
    return tmp_path / "cache" / "tenantry" / "one"


def test_those_that_start_at_once_build_once(cache: Path) -> None:
    built: list[Path] = []

    def build(out: Path) -> None:
        out.mkdir()
        built.append(out)
        assert not (cache / "1").exists(), "nothing is seen before it is complete"

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: built_once("one", "1", build, ""), range(4)))
    assert (found, len(built)) == ([cache / "1"] * 4, 1)


def test_a_failed_build_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingProgram, match=r"^it cannot be built: broken"):
        built_once("one", "1", lambda out: go_build(tmp_path, out, ".", what="it"), "")
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_without_go_a_built_one_is_found_and_another_is_missed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built_once("one", "1", Path.mkdir, "")
    monkeypatch.setenv("PATH", "")
    assert built_once("one", "1", Path.mkdir, "") == cache / "1"
    with pytest.raises(MissingProgram, match=r"^no Go$"):
        built_once("one", "2", Path.mkdir, "no Go")


def test_other_pins_or_flags_are_another_program(tmp_path: Path) -> None:
    pins = tmp_path / "go.sum"
    pins.write_text("a")
    first = fingerprint((pins,), "-s")
    assert first == fingerprint((pins,), "-s") != fingerprint((pins,), "-w")
    pins.write_text("b")
    assert fingerprint((pins,), "-s") != first
