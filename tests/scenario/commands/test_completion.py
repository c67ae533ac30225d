"""Completion as a shell asks for it: kinds, objects, namespaces and Operation ids; quick, and silent where nothing runs."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.scenario.cli import Running, called, completed, serving, until
from tests.scenario.platforms import declare
from tests.support.patience import BUSY

LONGEST_S = 10.0 * BUSY
"""Seconds of a whole command on a busy machine; the platform itself may take one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    declare(folder)
    return folder


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Running]:
    with serving("up", "platform", "--listen", "127.0.0.1:0", cwd=folder) as running:
        yield running


@pytest.mark.slow
def test_objects_come_from_the_running_platform(running: Running, folder: Path) -> None:
    operation = called("operations", "-o", "name", cwd=folder).stdout.split()[0].rpartition("/")[2]
    expected = {
        "tenantry get environm": ["environments"],
        "tenantry get environments ": ["dev"],
        "tenantry describe environment/": ["environment/dev"],
        "tenantry describe environment/tenant-acme/": ["environment/tenant-acme/dev"],
        "tenantry reconcile app": ["app/dev.crm"],
        "tenantry wait regi": ["region/eu"],
        "tenantry get apps -n tenant-": ["tenant-acme"],
        "tenantry tree ac": ["acme"],
        "tenantry backup d": ["dev"],
    }
    # On a busy machine a platform may miss its second; the next try finds it.
    for line, words in expected.items():
        until(lambda: completed(folder, line) == words)  # noqa: B023
    until(lambda: operation in completed(folder, "tenantry logs op-"))
    until(lambda: completed(folder, f"tenantry logs {operation}") == [operation])


def test_it_is_silent_and_quick_where_nothing_runs(tmp_path: Path) -> None:
    started = time.monotonic()
    assert completed(tmp_path, "tenantry describe environment/") == []
    assert time.monotonic() - started < LONGEST_S
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_platform_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    state = tmp_path / ".tenantry"
    state.mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as deaf:
        deaf.bind(str(state / "control.sock"))
        deaf.listen()
        started = time.monotonic()
        assert completed(tmp_path, "tenantry describe environment/") == []
        assert time.monotonic() - started < LONGEST_S


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_takes_the_script(shell: str, tmp_path: Path) -> None:
    script = called("completion", shell, cwd=tmp_path).stdout
    assert "_TENANTRY_COMPLETE" in script
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script, text=True, check=False).returncode == 0
