"""The release before this one, run from its commit beside the present one, on the same state folder."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.scenario.cli import begun
from tests.support.forked_commands import OPERATOR

ROOT = Path(__file__).parents[3]
OLD = "2bd9e272dba65649b9b7e0836ec3415e6f0f8851"
"""Release 0.1.0."""
COMMAND = (sys.executable, "-c", "from tenantry.cli.main import main; main()")
PATIENCE_S = 300
State = Mapping[str, bytes]
"""The stored bytes of each object, by kind, namespace and name."""


def unpack_old(folder: Path, *parts: str) -> Path:
    """Write the code of the old release below the folder, and return where Python finds it. Skips in a shallow clone.

    parts: files and folders of its tree; by default its code only.
    """
    with tempfile.TemporaryFile() as archive:
        command = ["git", "archive", "--format=tar", OLD, *(parts or ("operator",))]
        done = subprocess.run(command, cwd=ROOT, stdout=archive, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            shallow = subprocess.run(
                ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True, check=True
            )
            if shallow.stdout.strip() == "true":
                pytest.skip("a shallow clone has no older release")
            pytest.fail(done.stderr)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as files:
            files.extractall(folder, filter="data")
    return folder / "operator"


def run(code: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the release whose code is there."""
    with _begun(code, *arguments, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _begun(code: Path, *arguments: str, cwd: Path, **streams: Any) -> subprocess.Popen[str]:
    """Begin a command of that release. Those of the present one are forked."""
    if code == OPERATOR:
        return begun(*arguments, cwd=cwd, variables={}, **streams)
    return subprocess.Popen([*COMMAND, *arguments], cwd=cwd, env=variables(code), text=True, **streams)


def variables(code: Path) -> dict[str, str]:
    """The environment in which Python takes that code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TENANTRY")}
    return kept | {"PYTHONPATH": str(code), "NO_COLOR": "1"}


def kill_when(code: Path, *arguments: str, cwd: Path, state: Path, seen: Callable[[State], bool]) -> None:
    """Run a command, and end it by SIGKILL as soon as the stored state is as wanted."""
    deadline = time.monotonic() + PATIENCE_S
    with (cwd / "stderr").open("w+") as errors:
        process = _begun(code, *arguments, cwd=cwd, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            while not seen(stored(state)):
                assert time.monotonic() < deadline, "it did not come about"
                assert process.poll() is None, (cwd / "stderr").read_text()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def stored(state: Path) -> State:
    """Return what the store of a state folder holds; a process may be writing to it."""
    with closing(sqlite3.connect(f"file:{state / 'state.db'}?mode=ro", uri=True, timeout=60)) as database:
        rows = database.execute("SELECT kind, namespace, name, body FROM objects")
        return {f"{kind}/{namespace}/{name}": bytes(body) for kind, namespace, name, body in rows}


def version_of(state: Path) -> int:
    """Return how many writes the store of a state folder has seen."""
    with closing(sqlite3.connect(f"file:{state / 'state.db'}?mode=ro", uri=True, timeout=60)) as database:
        ((version,),) = database.execute("SELECT value FROM meta WHERE name = 'version'")
        return int(version)


def read(state: State, kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind."""
    return {name: json.loads(body) for name, body in state.items() if name.startswith(f"{kind}/")}
