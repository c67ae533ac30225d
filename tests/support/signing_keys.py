"""Keys that sign commits."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.scenario.repositories import Remote


@dataclass
class Signer:
    """A key. options: how git signs with it; trusted: its line in a file of trusted keys."""

    options: tuple[str, ...]
    trusted: bytes
    variables: dict[str, str]
    key: Path

    def sign(self, remote: Remote) -> str:
        """The tip of the branch, signed."""
        tree, parent = remote.git("rev-parse", "main^{tree}"), remote.git("log", "-1", "--format=%P", "main")
        who: dict[str, Any] = {"GIT_AUTHOR_NAME": "Ben Kay", "GIT_AUTHOR_EMAIL": "ben@example.com"}
        who |= {"GIT_COMMITTER_NAME": "Ben Kay", "GIT_COMMITTER_EMAIL": "ben@example.com"}
        above = ("-p", parent) if parent else ()
        signed = remote.git(*self.options, "commit-tree", "-S", tree, *above, "-m", "signed", **who | self.variables)
        remote.git("update-ref", "refs/heads/main", signed)
        return signed


def ssh_key(folder: Path, name: str) -> Signer:
    key = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)], check=True)
    trusted = b'ben@example.com namespaces="git" ' + key.with_suffix(".pub").read_bytes()
    return Signer(("-c", "gpg.format=ssh", "-c", f"user.signingKey={key}"), trusted, {}, key)


@pytest.fixture
def keys() -> Iterator[Path]:
    """A folder with a short path: gpg's agent listens on a socket in it."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield folder
    for home in folder.glob("gnupg-*"):
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
