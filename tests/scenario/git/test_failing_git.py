"""The git of the fault tests counts and strikes exactly, also if commands run at the same time."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.scenario.failing_git import FailingGit

COMMANDS = 20


def codes_of_commands_at_once(git: FailingGit) -> list[int]:
    started = [
        subprocess.Popen([git.folder / "git", "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(COMMANDS)
    ]
    return [each.wait() for each in started]


def test_commands_that_run_at_the_same_time_are_all_counted(tmp_path: Path) -> None:
    git = FailingGit.at(tmp_path / "bin")
    git.arm(0)
    assert codes_of_commands_at_once(git) == [0] * COMMANDS
    assert git.disarm() == COMMANDS


def test_exactly_one_of_them_is_struck(tmp_path: Path) -> None:
    git = FailingGit.at(tmp_path / "bin")
    git.arm(COMMANDS // 2, "fail")
    assert sorted(codes_of_commands_at_once(git)) == [0] * (COMMANDS - 1) + [1]
    assert codes_of_commands_at_once(git) == [0] * COMMANDS, "a later command is not that number any more"
    git.disarm()


def test_each_arming_counts_from_one(tmp_path: Path) -> None:
    git = FailingGit.at(tmp_path / "bin")
    git.arm(0)
    codes_of_commands_at_once(git)
    assert git.disarm() == COMMANDS
    assert codes_of_commands_at_once(git) == [0] * COMMANDS
    git.arm(1, "fail")
    assert subprocess.run([git.folder / "git", "version"], capture_output=True, check=False).returncode == 1
    assert git.disarm() == 1
