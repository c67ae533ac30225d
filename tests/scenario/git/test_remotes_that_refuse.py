"""Remotes that want to know who asks: sources behind ssh and https, the message for a person, and the way to mend it."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenantry.adapters.sources.git.entering import basic
from tenantry.model.resource import Ref
from tests.scenario.cli import called, serving, until
from tests.scenario.git.source_world import SYSTEM, ready, reason, source_world
from tests.scenario.git_world import ACME, DEV, REGION, git_world
from tests.scenario.packages.trust import Sshd, certified, sshd
from tests.scenario.repositories import Remote, served_over_http

pytestmark = pytest.mark.slow
SECRET = Ref("Secret", SYSTEM, "git")
PLATFORM = Ref("Source", SYSTEM, "platform")


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "served" / "acme.git")
    made.commit({"eu.yaml": REGION, "acme.yaml": ACME, "acme/dev.yaml": DEV})
    return made


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "sshd") as running:
        yield running


async def test_a_source_behind_ssh_waits_for_the_right_key_and_for_the_right_host(
    host: Sshd, remote: Remote, tmp_path: Path
) -> None:
    other, public = host.other_key()
    credentials = {"secretRef": {"name": "git"}, "knownHosts": host.known_hosts}
    async with source_world(tmp_path / "state") as world:
        await world.secret("git", SYSTEM, password=other)
        await world.source(host.url(remote.folder), credentials=credentials)
        status = await world.until("platform", SYSTEM)
        assert reason(status) == "CredentialsRefused", status
        assert "put one that may read it into the Secret of spec.credentials.secretRef" in ready(status)["message"]

        secret = await world.platform.state.writing.get(SECRET)
        encoded = base64.b64encode(host.key.encode()).decode()
        await world.platform.state.writing.replace(
            {**secret, "data": {"password": encoded}}, secret["metadata"]["resourceVersion"]
        )
        status = await world.until("platform", SYSTEM, lambda told: reason(told) == "Succeeded")
        assert status["documents"] == 3

        changed = {**credentials, "knownHosts": f"[127.0.0.1]:{host.port} {public}"}
        await world.edit(PLATFORM, credentials=changed)
        status = await world.until("platform", SYSTEM, lambda told: reason(told) != "Succeeded")
        assert (reason(status), "spec.credentials.knownHosts" in ready(status)["message"]) == ("HostNotTrusted", True)
        assert status["revision"] == remote.git("rev-parse", "main"), "what is applied stays"


async def test_a_write_back_is_pushed_by_ssh(host: Sshd, remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys and hosts of the user who runs it are those of the machine: an `ssh` before it takes others."""
    for name, text in (("key", host.key), ("known_hosts", f"{host.known_hosts}\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    options = f"-F /dev/null -i {tmp_path}/key -o UserKnownHostsFile={tmp_path}/known_hosts"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(shutil.which("ssh")))} {options} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    over_ssh = replace(remote)
    over_ssh.url = lambda tail="@main": f"git+{host.url(remote.folder)}{tail}"  # type: ignore[method-assign]
    async with git_world(tmp_path / "state", over_ssh) as world:
        id_ = await world.id_of("/environments", "dev")
        answer = await world("PUT", f"/environments/{id_}", json={"name": "Mine"})
        assert answer.status_code == 200, answer.text
        assert '"Mine"' in remote.git("show", "main:acme/dev.yaml")

        (tmp_path / "key").write_text(host.other_key()[0])
        answer = await world("PUT", f"/environments/{id_}", json={"name": "Yours"})
        assert (answer.status_code, "Permission denied" in answer.json()["error"]) == (500, True), answer.text
        assert '"Mine"' in remote.git("show", "main:acme/dev.yaml")


def test_check_tells_that_the_credentials_are_refused_and_where_others_are_to_be_put(remote: Remote, tmp_path: Path) -> None:
    context, authority = certified(tmp_path)
    (tmp_path / "token").write_text("ann:token\n")
    variables = {"GIT_SSL_CAINFO": str(authority), "TENANTRY_GIT__CREDENTIALS": str(tmp_path / "token")}
    with served_over_http(remote.folder.parent, context) as served:
        served.wants = basic("ann:token")
        url = f"git+{served.url}/acme.git@main"
        with serving("up", url, "--listen", "127.0.0.1:0", cwd=tmp_path, **variables, TENANTRY_GIT__INTERVAL="1s") as up:
            until(lambda: "3 documents" in called("check", cwd=tmp_path).stdout)
            served.wants = "revoked"
            until(lambda: "WRONG source: default" in called("check", cwd=tmp_path).stdout)
            told = called("check", cwd=tmp_path).stdout
            assert "3 documents" in told and "the remote refuses the credentials" in told, told
            assert "put one that may read it into the file that TENANTRY_GIT__CREDENTIALS names" in told
            assert up.end() == 0
