"""Commits of ours are signed by the key that is named, and by no other that this process may use."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tenantry.adapters.sources.git.command import GitFailed, GitLimits
from tenantry.adapters.sources.git.commits import Commits
from tenantry.adapters.sources.git.entering import key_of
from tenantry.adapters.sources.git.repository import Repository
from tenantry.adapters.sources.git.url import GitUrl
from tests.scenario.cli import until
from tests.scenario.repositories import Remote


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The private key that the agent of who runs tenantry holds."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))  # a socket's path is short
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(folder / "agent")], stdout=subprocess.DEVNULL)
    until((folder / "agent").exists)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(folder / "agent"))
    subprocess.run(["ssh-add", "-q", str(key)], check=True, capture_output=True)
    yield key
    process.terminate()
    process.wait()
    shutil.rmtree(folder)


async def test_the_agent_of_the_platform_signs_for_nobody(tmp_path: Path, agent: Path) -> None:
    remote = Remote.at(tmp_path / "remote")
    tip = remote.commit({"a.yaml": ""})
    repository = Repository(tmp_path / "copy", GitUrl(f"file://{remote.folder}", "refs/heads/main"), GitLimits())
    await repository.fetch("refs/heads/main", tip)
    given = {half: (agent.parent / f"key{half}").read_text() for half in ("", ".pub")}
    private, public = (Commits(repository, 10, partial(key_of, given[half])) for half in ("", ".pub"))
    signed = await private.commit(f"{tip}^{{tree}}", tip, "Ann <ann@example.com>", "signed")
    assert b"gpgsig" in await repository.git.run("cat-file", "commit", signed)
    with pytest.raises(GitFailed):
        await public.commit(f"{tip}^{{tree}}", tip, "Ann <ann@example.com>", "by the public half alone")
