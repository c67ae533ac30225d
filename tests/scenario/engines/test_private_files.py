"""The files of a platform's process are readable by their owner only, whatever umask it was started with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scenario.cli import COMMAND, environment
from tests.scenario.platforms import declare


def run(cwd: Path, *arguments: str) -> None:
    ended = subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120, check=False, umask=0
    )
    assert ended.returncode == 0, ended.stderr


def open_to_others(folder: Path) -> list[str]:
    return [str(each) for each in (folder, *folder.rglob("*")) if not each.is_symlink() and each.lstat().st_mode & 0o077]


@pytest.mark.slow
def test_nothing_that_a_command_writes_can_be_read_by_others(tmp_path: Path) -> None:
    declare(tmp_path)
    run(tmp_path, "up", "platform", "--state", "state", "--once")
    assert len(list((tmp_path / "state").rglob("*"))) > 10
    assert open_to_others(tmp_path / "state") == []
    run(tmp_path, "crds", "--out", "crds")
    assert open_to_others(tmp_path / "crds") == []
