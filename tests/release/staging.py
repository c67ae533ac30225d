"""A clean copy of what is released: the files of a commit, with its documentation built."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class ReleaseRefused(Exception):  # noqa: N818 - it ends the command, and its text is the reason
    """Nothing is released; the text says why."""


class Commit(NamedTuple):
    """The commit that is released. time: in seconds since 1970; the time of everything that is made."""

    id: str
    time: int


def released_commit() -> Commit:
    """Return the commit of the work tree. Raises ReleaseRefused if the tree differs from it."""
    if changed := _git("status", "--porcelain"):
        raise ReleaseRefused(f"the work tree has changes that are in no commit:\n{changed}")
    return current_commit()


def current_commit() -> Commit:
    """Return the newest commit, whether or not the work tree differs from it."""
    id_, time = _git("log", "-1", "--format=%H %ct").split()
    return Commit(id_, int(os.environ.get("SOURCE_DATE_EPOCH") or time))


def stage(commit: Commit, folder: Path) -> None:
    """Write the files of the commit into an empty folder, and build the documentation there."""
    with tempfile.TemporaryFile() as archive:
        subprocess.run(["git", "archive", "--format=tar", commit.id], cwd=ROOT, stdout=archive, check=True)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as files:
            files.extractall(folder, filter="data")
    # Not of this work tree: the pages and their builder are those of the commit.
    environment = os.environ | {"PYTHONPATH": f"{folder}:{folder / 'operator'}"}
    subprocess.run([sys.executable, "-m", "tests.docs.site"], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseRefused(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
