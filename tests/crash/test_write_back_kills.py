"""`up` as a process, ended by SIGKILL before or after a git command of a write-back.

The remote has all of it or nothing, and the next start brings the platform to what the remote has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crash.striking import Write, delete, edit, running, struck
from tests.scenario.cli import tenantry
from tests.scenario.failing_git import KILLS, FailingGit
from tests.scenario.git_world import ACME, DEV, REGION
from tests.scenario.repositories import Remote

pytestmark = [pytest.mark.slow, pytest.mark.campaign]
COMMANDS = 14
"""A write-back runs about as many; a strike beyond them comes during the sync that follows, or not at all."""


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "remote")
    made.commit({"eu.yaml": REGION, "acme.yaml": ACME, "acme/dev.yaml": DEV})
    return made


def killed_while(remote: Remote, folder: Path, git: FailingGit, at: int, mode: str, write: Write) -> None:
    """Runs `up`, makes the write, and is struck at that command; ends it otherwise."""
    variables = {"TENANTRY_GIT__WRITE_BACK": "branch"}
    with running(remote.url(), folder, git, **variables) as up:
        struck(up, folder, git, at, mode, write)


def converged(remote: Remote, folder: Path) -> dict[str, dict[str, Any]]:
    """Starts it once more; what it holds of tenants and environments, by name."""
    ended = tenantry("up", remote.url(), "--once", cwd=folder)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    remote.git("fsck", "--strict")
    assert remote.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    found = [
        each
        for kind in ("tenants", "environments")
        for each in json.loads(tenantry("get", kind, "-o", "json", cwd=folder).stdout)
    ]
    return {each["metadata"]["name"]: each for each in found}


@pytest.mark.parametrize("mode", KILLS)
@pytest.mark.parametrize("at", range(1, COMMANDS + 1, 2))
def test_an_edit(remote: Remote, tmp_path: Path, at: int, mode: str) -> None:
    before = remote.git("rev-parse", "main")
    killed_while(remote, tmp_path, FailingGit.at(tmp_path / "bin"), at, mode, edit)
    commits = remote.git("rev-list", f"{before}..main").splitlines()
    assert len(commits) <= 1
    assert ('"Edited"' in remote.git("show", "main:acme/dev.yaml")) == bool(commits)
    dev = converged(remote, tmp_path)["dev"]
    assert dev["spec"]["displayName"] == ("Edited" if commits else "Dev")
    assert not commits or dev["metadata"]["annotations"]["tenantry.dev/source-commit"] == commits[0]


@pytest.mark.parametrize("mode", KILLS)
@pytest.mark.parametrize("at", range(2, COMMANDS + 1, 2))
def test_a_deletion_and_a_creation(remote: Remote, tmp_path: Path, at: int, mode: str) -> None:
    git = FailingGit.at(tmp_path / "bin")

    def create(http: httpx.Client) -> None:
        http.post("/tenants", json={"name": "Beta", "slug": "beta"})

    killed_while(remote, tmp_path, git, at, mode, delete)
    files = remote.git("ls-tree", "-r", "--name-only", "main").splitlines()
    assert files in (["acme.yaml", "acme/dev.yaml", "eu.yaml"], ["eu.yaml"]), "a tenant goes with what is inside, or not at all"
    there = {"acme", "dev"} if "acme.yaml" in files else set()
    found = converged(remote, tmp_path)
    assert set(found) == there
    assert not [each for each in found.values() if "tenantry.dev/deletion-confirmed" in each["metadata"]["annotations"]]
    killed_while(remote, tmp_path, git, at, mode, create)
    files = remote.git("ls-tree", "-r", "--name-only", "main").splitlines()
    assert set(converged(remote, tmp_path)) == there | ({"beta"} if "tenant-beta.yaml" in files else set())
