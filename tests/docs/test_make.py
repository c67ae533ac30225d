"""`make up` installs only what running needs; `make test` adds what tests and checks need. Both say so at once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNTIME, DEVELOPMENT = "requirements.lock", "requirements-dev.lock"


def would_run(target: str, folder: Path) -> list[str]:
    """The commands of a target where nothing is installed."""
    command = ["make", "--dry-run", "--no-print-directory", target, f"VENV={folder / 'none'}"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_list_of_targets_fits_80_columns() -> None:
    listed = subprocess.run(["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line for line in listed.stdout.splitlines() if len(line) > 80] == []


def test_up_installs_what_running_needs_from_its_lock(tmp_path: Path) -> None:
    commands = would_run("up", tmp_path)
    assert commands[0].startswith('echo "Installing into ')
    assert any(f"--require-hashes -r {RUNTIME}" in each for each in commands)
    assert not any(DEVELOPMENT in each for each in commands[1:])
    assert commands[-1].endswith("tenantry up examples/02-music-company")


@pytest.mark.parametrize("target", ["test", "lint", "crds", "bench"])
def test_other_targets_install_what_tests_need_from_its_lock(target: str, tmp_path: Path) -> None:
    commands = would_run(target, tmp_path)
    assert commands[0].startswith('echo "Installing into ')
    assert any(f"--require-hashes {DEVELOPMENT}" in each for each in commands)
