"""`up` as a process, ended by SIGKILL before or after each git command of a sync: the next start brings what the branch says."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.scenario.cli import tenantry
from tests.scenario.failing_git import KILLS, FailingGit
from tests.scenario.repositories import Remote

pytestmark = [pytest.mark.slow, pytest.mark.campaign]
API = "apiVersion: tenantry.dev/v1alpha1\n"
COMMANDS = 6
"""A sync runs at least as many: it asks, fetches, resolves, lists, reads, finds out who changed what, and notes."""


def tenant(name: str, display: str) -> str:
    return f"{API}kind: Tenant\nmetadata: {{name: {name}}}\nspec: {{displayName: {display}}}\n"


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Remote, Path]:
    """A branch that was pushed to since it was applied, and the state folder of before."""
    folder = tmp_path_factory.mktemp("kills")
    remote = Remote.at(folder / "remote")
    remote.commit({"kept.yaml": tenant("kept", "before"), "gone.yaml": tenant("gone", "before")})
    state = folder / "state"
    first = tenantry("up", remote.url(), "--once", "--state", state, cwd=folder)
    assert first.returncode == 0, first.stderr
    remote.commit({"kept.yaml": tenant("kept", "after"), "gone.yaml": None, "made.yaml": tenant("made", "after")})
    return remote, state


def names(state: Path) -> dict[str, str]:
    told = tenantry("get", "tenants", "-o", "json", "--state", state, cwd=state.parent).stdout
    return {each["metadata"]["name"]: each["spec"]["displayName"] for each in json.loads(told)}


@pytest.mark.parametrize("mode", KILLS)
def test_a_sync_may_be_killed_at_every_git_command(applied: tuple[Remote, Path], tmp_path: Path, mode: str) -> None:
    remote, before = applied
    git = FailingGit.at(tmp_path / "bin")
    path = {"PATH": f"{git.folder}:{os.environ['PATH']}"}
    for at in range(1, 100):
        state = tmp_path / f"state-{at}"
        shutil.copytree(before, state)
        git.arm(at, mode)
        struck = tenantry("up", remote.url(), "--once", "--state", state, cwd=tmp_path, **path).returncode
        git.disarm()
        again = tenantry("up", remote.url(), "--once", "--state", state, cwd=tmp_path)
        assert again.returncode == 0, f"{mode} {at}: {again.stderr}"
        assert names(state) == {"kept": "after", "made": "after"}, f"{mode} {at}"
        assert not [*(state / "git").rglob("*.lock"), *(state / "git").rglob("tmp_*")], f"{mode} {at}"
        if struck != -signal.SIGKILL:
            break
    assert at > COMMANDS, "each of them was struck"
