"""Access to a remote for somebody: with their credentials, and at the very address that was checked."""

from __future__ import annotations

import base64
import shlex
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.sources.git import entering
from tenantry.adapters.sources.git.command import GitFailed, GitLimits
from tenantry.adapters.sources.git.entering import RemoteAccess
from tenantry.adapters.sources.git.repository import Repository
from tenantry.adapters.sources.git.url import GitUrl, git_url
from tenantry.rest.outbound import Rules
from tests.scenario.repositories import Remote, served_over_http

HERE = Rules(http=True, networks=(ip_network("127.0.0.0/8"),))
HTTPS = GitUrl("https://git.example.com/acme.git")
SSH = GitUrl("ssh://git@git.example.com:2222/acme.git")


def resolves(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    async def found(host: str, port: int, rules: Rules) -> tuple[str, ...]:
        return addresses

    monkeypatch.setattr(entering, "addresses_of", found)


def configured(variables: Any) -> dict[str, str]:
    """git's settings among the variables."""
    count = int(variables.get("GIT_CONFIG_COUNT", 0))
    return {variables[f"GIT_CONFIG_KEY_{n}"]: variables[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)}


def held(path: str) -> tuple[str, int] | None:
    """Text and mode of a file, None when there is none."""
    file = Path(path)
    return (file.read_text(), file.stat().st_mode & 0o777) if file.exists() else None


async def test_git_connects_where_it_is_told_to_and_asks_no_name_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolves(monkeypatch, "127.0.0.1")
    remote = Remote.at(tmp_path / "served" / "acme.git")
    tip = remote.commit({"a.yaml": ""})
    with served_over_http(tmp_path / "served") as served:
        url = GitUrl(served.url.replace("127.0.0.1", "git.invalid") + "/acme.git", "refs/heads/main")
        repository = Repository(tmp_path / "copy", url, GitLimits(), RemoteAccess(url, "ann:token", rules=HERE).enter)
        assert await repository.tip() == ("refs/heads/main", tip)
        assert await repository.fetch("refs/heads/main", tip) == tip
        assert served.authorizations == {f"Basic {base64.b64encode(b'ann:token').decode()}"}


async def test_a_tenant_s_remote_knows_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves(monkeypatch, "192.0.2.1", "2001:db8::1")
    async with RemoteAccess(HTTPS, rules=Rules()).enter() as variables:
        assert variables["no_proxy"] == variables["NO_PROXY"] == "*"
        assert configured(variables) == {"http.curloptResolve": "git.example.com:443:192.0.2.1,[2001:db8::1]"}


async def test_the_platform_s_remote_is_entered_as_its_environment_says() -> None:
    async with RemoteAccess(HTTPS).enter() as variables:
        assert variables == {}
    async with RemoteAccess(HTTPS, "token").enter() as variables:
        value = f"Authorization: Basic {base64.b64encode(b'git:token').decode()}"
        assert configured(variables) == {"http.https://git.example.com/.extraHeader": value}


async def test_ssh_uses_the_given_key_and_hosts_alone_and_only_while_git_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves(monkeypatch, "192.0.2.1")
    async with RemoteAccess(SSH, "a private key", "[git.example.com]:2222 ssh-ed25519 AAAA", Rules()).enter() as variables:
        words = shlex.split(variables["GIT_SSH_COMMAND"])
        identity = words[words.index("-i") + 1]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        assert held(identity) == ("a private key\n", 0o600)
        assert held(options["UserKnownHostsFile"]) == ("[git.example.com]:2222 ssh-ed25519 AAAA\n", 0o600)
    assert held(identity) is None
    wanted = {
        "IdentityAgent": "none", "IdentitiesOnly": "yes", "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes",
        "HostName": "192.0.2.1", "HostKeyAlias": "[git.example.com]:2222", "BatchMode": "yes",
    }  # fmt: skip
    assert wanted.items() <= options.items()
    assert words[words.index("-F") + 1] == "/dev/null"


@pytest.mark.parametrize("url", ["https://localhost/acme.git", "ssh://git@127.0.0.1/acme.git"])
async def test_a_closed_address_is_not_entered(url: str) -> None:
    with pytest.raises(GitFailed, match="not public"):
        async with RemoteAccess(git_url(url), "key", "hosts", Rules()).enter():
            pass


async def test_a_name_that_leads_nowhere_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(host: str, port: int, rules: Rules) -> tuple[str, ...]:
        raise OSError("no such name")

    monkeypatch.setattr(entering, "addresses_of", nowhere)
    with pytest.raises(GitFailed, match=r"git\.example\.com cannot be resolved"):
        async with RemoteAccess(HTTPS, rules=Rules()).enter():
            pass


async def test_a_git_that_cannot_be_told_where_to_connect_enters_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entering, "_git_version", lambda: (2, 30))
    with pytest.raises(GitFailed, match=r"git 2\.37 or newer is needed"):
        async with RemoteAccess(HTTPS, rules=Rules()).enter():
            pass


@pytest.mark.parametrize(
    ("url", "revision", "path", "why"),
    [
        ("https://u:secret@h/r", "", "", "holds no credentials"),
        ("http://h.example/r", "", "", "is not supported"),
        ("https://h.example", "", "", "must be https"),
        ("https://h.example/r", "refs/heads/a..b", "", "is not a branch or tag"),
        ("https://h.example/r", "", "a/../..", "inside the repository"),
        ("https://-h/r", "", "", "is not a host"),
    ],
)
def test_what_is_no_repository_is_refused(url: str, revision: str, path: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        git_url(url, revision, path)
