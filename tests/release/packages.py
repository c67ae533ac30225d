"""The wheel and the source package, by the pinned build backend of requirements-build.lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.release.staging import ROOT, Commit
from tests.support.built_programs import MissingProgram, built_once, fingerprint

LOCK = ROOT / "requirements-build.lock"


def build_packages(staged: Path, commit: Commit, folder: Path) -> None:
    """Write the wheel and the source package into the folder. Raises MissingProgram if the backend cannot be installed."""
    backend = built_once("release", f"backend-{fingerprint([LOCK])}", _install, "there is no Python", needs=sys.executable)
    environment = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": str(commit.time), "PYTHONPATH": str(backend)}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=staged, env=environment, check=True, stdout=subprocess.DEVNULL)


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    done = subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingProgram(f"the build backend cannot be installed: {done.stderr[-2000:]}")
