"""Folders of runs of tests that are over are removed, and those of others stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import folders_in_memory
from tests.support.folders_in_memory import has_room, made_in, remove_left


def test_the_folder_of_a_run_that_is_over_goes_and_that_of_another_stays(tmp_path: Path) -> None:
    (over, lock), (other, held) = made_in(tmp_path), made_in(tmp_path)
    (over / "file").touch()
    os.close(lock)

    remove_left(tmp_path)

    assert list(tmp_path.iterdir()) == [other]
    os.close(held)


def test_a_folder_that_is_being_made_stays(tmp_path: Path) -> None:
    folder, lock = made_in(tmp_path)
    os.close(lock)
    folder.chmod(0o700)

    remove_left(tmp_path)

    assert folder.exists()


def test_another_user_may_enter_as_the_server_of_a_database_does(tmp_path: Path) -> None:
    folder, lock = made_in(tmp_path)

    assert folder.stat().st_mode & 0o7777 == 0o1777
    os.close(lock)


def test_a_place_that_is_missing_or_too_small_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_room(tmp_path / "missing")
    monkeypatch.setattr(folders_in_memory, "ROOM", 1 << 60)
    assert not has_room(tmp_path)
