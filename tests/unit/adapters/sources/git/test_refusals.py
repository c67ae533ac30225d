"""A remote that answers and lets nobody in: distinct from one that is away, with the way out for a person."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.git.command import GitFailed
from tenantry.adapters.sources.git.entering import RemoteAccess, basic
from tenantry.adapters.sources.git.refusals import Means, refusal_of
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.state import LAST_RETRY_S, pause_s
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.model.tree import Tree
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tests.scenario.packages.trust import Sshd, certified, sshd
from tests.scenario.repositories import Remote, Served, served_over_http

MEANS = Means("HTTP-SECRET", "SSH-SECRET", "KNOWN-HOSTS")
TENANT = "apiVersion: tenantry.dev/v1alpha1\nkind: Tenant\nmetadata: {name: acme}\nspec: {displayName: Acme}\n"
TOKEN = "ann:token"


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Remote:
    made = Remote.at(tmp_path_factory.mktemp("refusing") / "served" / "acme.git")
    made.commit({"a.yaml": TENANT})
    return made


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    return certified(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def forge(remote: Remote, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """An https server whose authority git knows, and which wants a token."""
    monkeypatch.setenv("GIT_SSL_CAINFO", str(tls[1]))
    with served_over_http(remote.folder.parent, tls[0]) as served:
        served.wants = basic(TOKEN)
        yield served


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("ssh") / "sshd") as running:
        yield running


async def read(url: str, folder: Path, secret: str = "", known_hosts: str = "") -> Tree:
    """The tree of a source that enters by these. A second look says the same."""
    packages = PackageFiles(FolderBlobs(folder / "blobs", inspect), build)
    remote = GitUrl(url, "refs/heads/main")
    settings = GitSettings(enter=RemoteAccess(remote, secret, known_hosts).enter, means=MEANS)
    source = GitSource(remote, folder / "cache", dict, packages, lambda: datetime(2026, 11, 21, tzinfo=UTC), settings)
    tree = await source.read()
    assert (await source.read()).away == tree.away, "it says the same each time: nothing is written then"
    return tree


@pytest.mark.slow
async def test_the_right_credentials_open_a_remote_behind_https(forge: Served, tmp_path: Path) -> None:
    tree = await read(f"{forge.url}/acme.git", tmp_path, TOKEN)
    assert (tree.away, tree.refusal, [each.ref.name for each in tree.documents]) == ("", "", ["acme"])


@pytest.mark.parametrize(
    ("path", "secret", "answers", "refusal", "told"),
    [
        ("acme.git", "ann:wrong", 0, "CredentialsRefused", "refuses the credentials"),
        ("acme.git", "", 0, "CredentialsRefused", "put one that may read it into HTTP-SECRET"),
        ("acme.git", TOKEN, 403, "CredentialsRefused", "returned error: 403"),
        ("acme.git", TOKEN, 404, "RepositoryNotFound", "the repository does not exist"),
        ("none.git", TOKEN, 0, "RepositoryNotFound", "check its URL"),
        ("acme.git", TOKEN, 503, "", "returned error: 503"),
        ("acme.git", TOKEN, 429, "", "returned error: 429"),
    ],
    ids=["wrong", "none are given", "403", "404", "not there", "overloaded", "too often"],
)
async def test_what_an_https_server_answers(
    forge: Served, tmp_path: Path, path: str, secret: str, answers: int, refusal: str, told: str
) -> None:
    forge.answers = answers
    tree = await read(f"{forge.url}/{path}", tmp_path, secret)
    assert (tree.refusal, tree.away.startswith("since 2026-11-21T00:00:00Z: "), told in tree.away) == (refusal, True, True), tree
    assert tree.away.partition(": ")[2] in str(tree.problems[0]), "also where nothing was ever read"
    assert "token" not in tree.away


async def test_a_certificate_of_nobody_known_is_not_trusted(
    forge: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIT_SSL_CAINFO")
    tree = await read(f"{forge.url}/acme.git", tmp_path, TOKEN)
    assert (tree.refusal, "GIT_SSL_CAINFO" in tree.away) == ("HostNotTrusted", True), tree.away


@pytest.mark.slow
async def test_the_right_key_opens_a_remote_behind_ssh(host: Sshd, remote: Remote, tmp_path: Path) -> None:
    tree = await read(host.url(remote.folder), tmp_path, host.key, host.known_hosts)
    assert (tree.away, tree.refusal, [each.ref.name for each in tree.documents]) == ("", "", ["acme"])


@pytest.mark.slow
async def test_what_an_ssh_server_answers(host: Sshd, remote: Remote, tmp_path: Path) -> None:
    secret, public = host.other_key()
    url, changed = host.url(remote.folder), f"[127.0.0.1]:{host.port} {public}"
    cases: dict[str, tuple[str, str, str, str, str]] = {
        "another key": (url, secret, host.known_hosts, "CredentialsRefused", "into SSH-SECRET"),
        "no key": (url, "a token", host.known_hosts, "CredentialsRefused", "the SSH key cannot be read"),
        "the host's key changed": (url, host.key, changed, "HostNotTrusted", "shows a key other than the known one"),
        "an unknown host": (url, host.key, "example.com ssh-ed25519 AAAA", "HostNotTrusted", "put its key into KNOWN-HOSTS"),
        "no repository": (f"{url}-none", host.key, host.known_hosts, "RepositoryNotFound", "the repository does not exist"),
    }
    for number, (name, (url, key, known, refusal, told)) in enumerate(cases.items()):
        tree = await read(url, tmp_path / str(number), key, known)
        assert (tree.refusal, told in tree.away) == (refusal, True), f"{name}: {tree.away}"
        assert "/tenantry-git-" not in tree.away, name


async def test_a_host_that_is_not_there_is_away(tmp_path: Path) -> None:
    tree = await read("ssh://git@127.0.0.1:1/acme.git", tmp_path, "key", "hosts")
    assert (tree.refusal, tree.away.endswith("connect to host 127.0.0.1 port 1: Connection refused")) == ("", True)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("ERROR: Repository not found.\nCould not read from remote repository.", "RepositoryNotFound"),
        ("The project you were looking for could not be found or you don't have permission to view it.", "RepositoryNotFound"),
        ("SSL certificate problem: self-signed certificate in certificate chain", "HostNotTrusted"),
        ("Received disconnect from 192.0.2.1 port 22:2: Too many authentication failures", "CredentialsRefused"),
        ("unable to access 'https://h/r/': Could not resolve host: h", None),
        ("detected dubious ownership in repository at '/srv/acme.git'\nTo add an exception for this", "OwnerNotTrusted"),
        ("the remote end hung up unexpectedly", None),
    ],
)
def test_what_forges_say(said: str, reason: str | None) -> None:
    found = refusal_of(GitFailed("git failed", said), MEANS)
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize("error", [OSError(28, "Permission denied (disk)"), GitFailed("Permission denied (unsaid)")], ids=repr)
def test_what_git_did_not_say_is_no_refusal(error: Any) -> None:
    assert refusal_of(error, MEANS) is None


def test_one_that_lets_nobody_in_is_asked_seldom_from_the_first() -> None:
    assert [pause_s(60, failures, shut=True) for failures in (1, 2, 9)] == [LAST_RETRY_S] * 3
    assert pause_s(3600, 1, shut=True) == 3600
