"""`up` as a process, ended by SIGKILL at a git command while it writes back what a Source declares.

The remote has all of it or nothing, and the next start brings the platform to what the remote has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.crash.striking import Write, delete, edit, running, struck
from tests.scenario.cli import serving, tenantry, until
from tests.scenario.failing_git import FailingGit
from tests.scenario.git_world import ACME, DEV, REGION
from tests.scenario.repositories import Remote

pytestmark = [pytest.mark.slow]
COMMANDS = 16
"""A write runs about as many; the first asks the remote, the last but a few push. The sync that follows is struck by the rest."""
FEW = ((11, "kill-after"), (13, "kill-before"))
POINTS = [
    pytest.param(at, mode, marks=() if (at, mode) in FEW else pytest.mark.campaign)
    for at in range(1, COMMANDS + 1)
    for mode in ("kill-before", "kill-after")
]
SOURCE = """apiVersion: tenantry.dev/v1alpha1
kind: Source
metadata: {{name: platform, namespace: tenantry-system}}
spec: {{url: "file://{folder}", branch: main, interval: 1h, writeBack: {{mode: Branch}}}}
"""


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "remote")
    made.commit({"eu.yaml": REGION, "acme.yaml": ACME, "acme/dev.yaml": DEV})
    declared = tmp_path / "declared" / "source.yaml"
    declared.parent.mkdir()
    declared.write_text(SOURCE.format(folder=made.folder))
    return made


def held(kind: str, folder: Path) -> list[dict[str, Any]]:
    """The objects of a kind that are not being deleted."""
    found = json.loads(tenantry("get", kind, "-o", "json", cwd=folder).stdout)
    return [each for each in found if not each["metadata"].get("deletionTimestamp")]


def applied(remote: Remote, folder: Path) -> dict[str, dict[str, Any]]:
    """Its tenants and environments, by name, once the Source has applied the tip."""
    tip = remote.git("rev-parse", "main")
    until(lambda: [each["status"].get("revision") for each in held("sources", folder)] == [tip])
    return {each["metadata"]["name"]: each for kind in ("tenants", "environments") for each in held(kind, folder)}


def killed_while(remote: Remote, folder: Path, git: FailingGit, at: int, mode: str, write: Write) -> None:
    """Runs `up`, makes the write once the Source is applied, and is struck at that command; ends it otherwise."""
    with running("declared", folder, git) as up:
        applied(remote, folder)
        struck(up, folder, git, at, mode, write)


def restarted(remote: Remote, folder: Path) -> dict[str, dict[str, Any]]:
    remote.git("fsck", "--strict")
    assert remote.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    with serving("up", "declared", "--listen", "127.0.0.1:0", cwd=folder):
        return applied(remote, folder)


@pytest.mark.parametrize(("at", "mode"), POINTS)
def test_an_edit(remote: Remote, tmp_path: Path, at: int, mode: str) -> None:
    before = remote.git("rev-parse", "main")

    killed_while(remote, tmp_path, FailingGit.at(tmp_path / "bin"), at, mode, edit)
    commits = remote.git("rev-list", f"{before}..main").splitlines()
    assert len(commits) <= 1
    dev = restarted(remote, tmp_path)["dev"]
    assert dev["spec"]["displayName"] == ("Edited" if commits else "Dev")
    assert not commits or dev["metadata"]["annotations"]["tenantry.dev/source-commit"] == commits[0]


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["kill-before", "kill-after"])
@pytest.mark.parametrize("at", range(2, COMMANDS + 1, 2))
def test_a_deletion(remote: Remote, tmp_path: Path, at: int, mode: str) -> None:
    killed_while(remote, tmp_path, FailingGit.at(tmp_path / "bin"), at, mode, delete)
    files = remote.git("ls-tree", "-r", "--name-only", "main").splitlines()
    assert files in (["acme.yaml", "acme/dev.yaml", "eu.yaml"], ["eu.yaml"]), "a tenant goes with what is inside, or not at all"
    found = restarted(remote, tmp_path)
    assert set(found) == ({"acme", "dev"} if "acme.yaml" in files else set())
    assert not [each for each in found.values() if "tenantry.dev/deletion-confirmed" in each["metadata"]["annotations"]]
