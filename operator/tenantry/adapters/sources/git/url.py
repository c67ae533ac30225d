"""The URL of a Git source: `git+SCHEME://HOST/REPOSITORY@REVISION:PATH`. The revision and the path are optional."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

PREFIX = "git+"
SCHEMES = ("https", "ssh", "file")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_BAD_REVISION = re.compile(r"^[-/.]|\.\.|@\{|//|/\.|\.lock(/|$)|[/.]$|[~^?*\[\\:]|^@$")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True)
class GitUrl:
    """A folder, or a file, of a repository. url: as git takes it; revision: branch, tag or full commit, `""` for the
    repository's own default; path: inside the repository, `""` for all of it.
    """

    url: str
    revision: str = ""
    path: str = ""

    @property
    def scheme(self) -> str:
        """Return git's name of the protocol."""
        return self.url.partition(":")[0]

    @property
    def pinned(self) -> bool:
        """True for a commit, which never moves."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision or self.path else ""
        return f"{PREFIX}{self.url}{revision}{f':{self.path}' if self.path else ''}"


def is_git_url(text: str) -> bool:
    """Return True if the text names a repository, not a folder."""
    return text.startswith(PREFIX)


def source_of(text: str) -> Path | GitUrl:
    """Return the folder, file or repository that a source names. Raises ValueError."""
    return parse_git_url(text) if is_git_url(text) else Path(text)


def parse_git_url(text: str) -> GitUrl:
    """Raises ValueError, which says what is wrong with it. An `@` in the repository's own path is written %40."""
    if _CONTROL.search(text):
        raise ValueError("a repository's URL holds no spaces and no control characters; write %20")
    scheme, found, rest = text.removeprefix(PREFIX).partition("://")
    host, slash, where = rest.partition("/")
    if not found or not slash or not where:
        raise ValueError(
            f"{_shown(text)} must be git+https://HOST/REPOSITORY, git+ssh://USER@HOST/REPOSITORY or git+file:///REPOSITORY"
        )
    _check_host(scheme, host)
    repository, _, at = where.partition("@")
    revision, _, path = at.partition(":")
    if revision and (_BAD_REVISION.search(revision) or len(revision) > 255):
        raise ValueError(f"{revision!r} is not a branch, tag or commit")
    return GitUrl(f"{scheme}://{host}/{repository}", revision, _checked_path(path))


def git_url(url: str, revision: str = "", path: str = "") -> GitUrl:
    """The same of its parts. revision: a branch, a tag, or the full name of either. Raises ValueError."""
    if _CONTROL.search(url):
        raise ValueError("a repository's URL holds no spaces and no control characters; write %20")
    scheme, found, rest = url.partition("://")
    host, slash, repository = rest.partition("/")
    if not found or not slash or not repository:
        raise ValueError(f"{_shown(url)} must be https://HOST/REPOSITORY, ssh://USER@HOST/REPOSITORY or file:///REPOSITORY")
    _check_host(scheme, host)
    if revision and _BAD_REVISION.search(revision):
        raise ValueError(f"{revision!r} is not a branch or tag")
    return GitUrl(url, revision, _checked_path(path))


def _check_host(scheme: str, host: str) -> None:
    try:
        parts = urlsplit(f"{scheme}://{host}/")
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{host!r} is not a host: {error}") from None
    if scheme not in SCHEMES and not (scheme == "http" and parts.hostname in _LOOPBACK):
        raise ValueError(f"git+{scheme} is not supported; write git+https, git+ssh or git+file (git+http only for this machine)")
    if parts.password is not None or (parts.username and scheme != "ssh"):
        raise ValueError("a repository's URL holds no credentials: name a file that holds them in TENANTRY_GIT__CREDENTIALS")
    if (scheme == "file") != (not parts.hostname):
        raise ValueError("git+file:///PATH names no host" if scheme == "file" else f"git+{scheme} needs a host")
    if unquote(host).startswith("-") or (parts.username or "").startswith("-") or (parts.hostname or "").startswith("-"):
        raise ValueError(f"{host!r} is not a host")


def _checked_path(path: str) -> str:
    steps = PurePosixPath(path).parts
    if path.startswith("/") or ".." in steps or "\\" in path:
        raise ValueError(f"{path!r} must be a path inside the repository, with /")
    return "/".join(step for step in steps if step != ".")


def _shown(text: str) -> str:
    """Without what may be a password."""
    return re.sub(r"//[^/@]*@", "//...@", text)
