"""`make up` installs only what running needs; `make test` adds what tests and checks need. Both say so at once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.patience import BUSY

ROOT = Path(__file__).parents[2]
READY_WITHIN_S = 30
"""Seconds from `make up` in a new clone to a platform whose objects are all Ready. The caches of uv and pip are warm."""
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


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files of this repository, as they are now, and nothing installed."""
    folder = tmp_path / "clone"
    folder.mkdir()
    packed = "git ls-files -z -- Makefile README.md LICENSE '*.toml' '*.lock' operator examples charts | tar --null -cT -"
    subprocess.run(["sh", "-c", f"{packed} | tar -xC {folder}"], cwd=ROOT, check=True)
    return folder


@contextmanager
def made(target: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "TENANTRY_", "VIRTUAL_ENV", "PYTHONPATH"))
    }
    process = subprocess.Popen(
        ["make", "--no-print-directory", target],
        cwd=folder,
        env=kept | {"TENANTRY_LISTEN": "127.0.0.1:0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=READY_WITHIN_S)


@pytest.mark.slow
def test_a_new_clone_has_a_ready_platform_in_half_a_minute(clone: Path) -> None:
    began, printed = time.monotonic(), []
    with made("up", clone) as making:
        assert making.stdout is not None
        for line in making.stdout:
            printed.append(line)
            if "http://" in line:
                break
        took = time.monotonic() - began
    print(f"ready after {took:.1f} s")
    assert "".join(printed[:1]).startswith("Installing into .venv what Tenantry needs to run"), printed
    assert "http://" in "".join(printed[-1:]), printed
    assert took <= READY_WITHIN_S * BUSY
