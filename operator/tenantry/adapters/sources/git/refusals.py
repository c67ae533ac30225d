"""The reason and the remedy when a remote answers but refuses access. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from tenantry.adapters.sources.git.command import GitFailed

CREDENTIALS_REFUSED = "CredentialsRefused"
HOST_NOT_TRUSTED = "HostNotTrusted"
OWNER_NOT_TRUSTED = "OwnerNotTrusted"
REPOSITORY_NOT_FOUND = "RepositoryNotFound"


@dataclass(frozen=True)
class Means:
    """Names of the means of access for people: credentials for https, a key for ssh, and the keys of ssh hosts."""

    credentials: str = "the file that TENANTRY_GIT__CREDENTIALS names"
    key: str = "the SSH agent of who runs tenantry"
    hosts: str = "the known_hosts of who runs tenantry"


class Refusal(NamedTuple):
    """The refusal of a remote. reason: for machines; message: git's message and the remedy."""

    reason: str
    message: str


class _Sign(NamedTuple):
    """said: a line of what git and ssh print; its group is quoted. about: what it means; todo: what helps."""

    said: re.Pattern[str]
    reason: str
    about: str
    todo: str


def _sign(said: str, reason: str, about: str, todo: str) -> _Sign:
    return _Sign(re.compile(said, re.M | re.I), reason, about, todo)


_READS = "put one that may read it into {}"
_SIGNS = (
    _sign(
        r"^(Host key for .* has changed)",
        HOST_NOT_TRUSTED,
        "the host shows a key other than the known one",
        "if it is the right host, put its new key into {hosts}",
    ),
    _sign(
        r"^(No .*host key is known for .*?)(?: and you have|\.?$)",
        HOST_NOT_TRUSTED,
        "the host's key is not known",
        "if it is the right host, put its key into {hosts}",
    ),
    _sign(r"^(Host key verification failed)", HOST_NOT_TRUSTED, "the host is not trusted", "put its key into {hosts}"),
    _sign(
        r"((?:server )?certificate (?:verification failed|problem).*|SSL: no alternative certificate subject name.*)",
        HOST_NOT_TRUSTED,
        "the host's certificate is not trusted",
        "if it is the right host, GIT_SSL_CAINFO may name a file with its authority",
    ),
    _sign(
        r"^Load key \".*\": (.*)",
        CREDENTIALS_REFUSED,
        "the SSH key cannot be read",
        "put one without a passphrase into {key}",
    ),
    _sign(
        r"(Permission denied \(.*\)|Too many authentication failures)",
        CREDENTIALS_REFUSED,
        "the remote refuses the SSH key",
        _READS.format("{key}"),
    ),
    _sign(
        r"(Authentication failed|could not read (?:Username|Password)|The requested URL returned error: 40[13])",
        CREDENTIALS_REFUSED,
        "the remote refuses the credentials, or needs some",
        _READS.format("{credentials}"),
    ),
    _sign(
        # The advice of git does not help here: it runs without the configuration of any user.
        r"(detected dubious ownership)",
        OWNER_NOT_TRUSTED,
        "the repository belongs to another user of this machine, and git refuses to read it",
        "give it to the user who runs tenantry, or serve it by ssh or https",
    ),
    _sign(
        r"(repository '.*' not found|Repository not found|'.*' does not appear to be a git repository"
        r"|project you were looking for could not be found)",
        REPOSITORY_NOT_FOUND,
        "the repository does not exist, or these credentials may not read it",
        "check its URL",
    ),
)


def refusal_of(error: Exception, means: Means) -> Refusal | None:
    """None for what is no refusal: the remote cannot be reached, or something else failed."""
    if not isinstance(error, GitFailed):
        return None
    for sign in _SIGNS:
        found = sign.said.search(error.said)
        if found:
            todo = sign.todo.format(hosts=means.hosts, key=means.key, credentials=means.credentials)
            return Refusal(sign.reason, f"{sign.about} ({found[1].strip(' .')[:200]}); {todo}")
    return None
