"""One worker makes a costly folder, and each works on a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.made_once import copy_of


def test_it_is_made_once_and_each_has_its_own(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "deeper").mkdir()
        (folder / "deeper" / "file").write_text("made")

    first, second = (copy_of(request.node.name, make, tmp_path_factory) for _ in range(2))
    (first / "deeper" / "file").write_text("changed")
    assert (second / "deeper" / "file").read_text() == "made"
    assert (len(made), len({first, second, *made})) == (1, 3)


def test_one_that_fails_is_made_again(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    def fail(folder: Path) -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        copy_of(request.node.name, fail, tmp_path_factory)
    assert list(copy_of(request.node.name, lambda folder: (folder / "file").touch(), tmp_path_factory).iterdir())
