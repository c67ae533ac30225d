"""URLs of Git sources, and texts that are none."""

from __future__ import annotations

import pytest

from tenantry.adapters.sources.git.url import GitUrl, parse_git_url, source_of

COMMIT = 40 * "a"
GOOD = {
    "a branch and a path": ("git+https://h/o/r.git@main:deploy/prod", GitUrl("https://h/o/r.git", "main", "deploy/prod")),
    "nothing but a repository": ("git+file:///srv/r", GitUrl("file:///srv/r")),
    "a path of the default branch": ("git+https://h/r@:deploy", GitUrl("https://h/r", "", "deploy")),
    "a branch with slashes": ("git+https://h/r@feature/a-b", GitUrl("https://h/r", "feature/a-b")),
    "a commit": (f"git+https://h/r@{COMMIT}", GitUrl("https://h/r", COMMIT)),
    "ssh with a user and a port": ("git+ssh://git@h:2222/r.git@v1", GitUrl("ssh://git@h:2222/r.git", "v1")),
    "an @ in the repository's path": ("git+file:///srv/a%40b@main", GitUrl("file:///srv/a%40b", "main")),
    "an @ in the path": ("git+https://h/r@main:apps/@scope", GitUrl("https://h/r", "main", "apps/@scope")),
    "a slash at the path's end": ("git+https://h/r@main:deploy/", GitUrl("https://h/r", "main", "deploy")),
    "dots in the path": ("git+https://h/r@main:./a/./b", GitUrl("https://h/r", "main", "a/b")),
    "http on this machine": ("git+http://127.0.0.1:8080/r", GitUrl("http://127.0.0.1:8080/r")),
    "http on this machine, by version 6": ("git+http://[::1]:8080/r", GitUrl("http://[::1]:8080/r")),
}
BAD = {
    "http elsewhere": ("git+http://example.com/r", "git+http is not supported"),
    "the git protocol": ("git+git://h/r", "git+git is not supported"),
    "a helper that runs commands": ("git+ext::sh -c id", "no spaces"),
    "a helper without spaces": ("git+ext::sh%20-c%20id", "must be git+https://"),
    "a helper as a scheme": ("git+ext://h/r", "git+ext is not supported"),
    "no scheme": ("git+/srv/r", "must be git+https://"),
    "scp's form": ("git+git@h:r.git", "must be git+https://"),
    "no repository": ("git+https://h", "must be git+https://"),
    "no host": ("git+https:///r", "git+https needs a host"),
    "a host for a file": ("git+file://h/r", "git+file:///PATH names no host"),
    "a password": ("git+https://u:hunter2@h/r", "holds no credentials"),
    "a token": ("git+https://hunter2@h/r", "holds no credentials"),
    "a password for ssh": ("git+ssh://git:hunter2@h/r", "holds no credentials"),
    "a host like an option": ("git+ssh://-oProxyCommand=id/r", "is not a host"),
    "a user like an option": ("git+ssh://-l@h/r", "is not a host"),
    "a port that is none": ("git+https://h:x/r", "is not a host"),
    "a newline": ("git+https://h/r@main\n", "no spaces"),
    "a revision like an option": ("git+https://h/r@--upload-pack=id", "is not a branch, tag or commit"),
    "a range": ("git+https://h/r@a..b", "is not a branch, tag or commit"),
    "a time": ("git+https://h/r@main@{1}", "is not a branch, tag or commit"),
    "a pattern": ("git+https://h/r@ma*", "is not a branch, tag or commit"),
    "a parent": ("git+https://h/r@main~1", "is not a branch, tag or commit"),
    "a lock": ("git+https://h/r@main.lock", "is not a branch, tag or commit"),
    "a revision of 300 letters": (f"git+https://h/r@{300 * 'x'}", "is not a branch, tag or commit"),
    "a path that leads out": ("git+https://h/r@main:../x", "must be a path inside the repository"),
    "a path that leads out later": ("git+https://h/r@main:a/../../x", "must be a path inside the repository"),
    "an absolute path": ("git+https://h/r@main:/etc", "must be a path inside the repository"),
    "a path with backslashes": ("git+https://h/r@main:a\\b", "must be a path inside the repository"),
}


@pytest.mark.parametrize(("text", "url"), GOOD.values(), ids=GOOD)
def test_it_is_read(text: str, url: GitUrl) -> None:
    assert parse_git_url(text) == url
    assert parse_git_url(str(url)) == url


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD)
def test_it_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^.+$") as refused:
        parse_git_url(text)
    assert reason in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_folder_is_no_url() -> None:
    assert str(source_of("git/platform")) == "git/platform"
    assert isinstance(source_of("git+file:///srv/r"), GitUrl)


def test_only_a_full_commit_is_pinned() -> None:
    assert parse_git_url(f"git+https://h/r@{COMMIT}").pinned
    assert not parse_git_url("git+https://h/r@aaaaaaa").pinned
