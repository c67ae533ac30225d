"""The parts of a run that no lock holds: the machine, its programs, and the commit that is judged."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from pathlib import Path

PROGRAMS = (("postgres", "--version"), ("chromium", "--version"), ("go", "version"), ("git", "--version"))
POSTGRES = Path("/usr/lib/postgresql/15/bin")


def described() -> str:
    """Kernel, cores, load, and the versions of programs that tests use."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    found = [f"Python {platform.python_version()}", *(_version(*command) for command in PROGRAMS)]
    return f"Linux {platform.release()}, {os.cpu_count()} cores, load {load}; {'; '.join(found)}"


def _version(program: str, argument: str) -> str:
    path = f"{os.environ.get('PATH', '')}:{POSTGRES}"
    try:
        done = subprocess.run([program, argument], capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return f"no {program}"
    return done.stdout.partition("\n")[0].strip() or f"no {program}"


def commit_day() -> date:
    return date.fromisoformat(_git("log", "-1", "--format=%cs").strip())


def touched_files() -> frozenset[str]:
    """The files of the commits that are judged: those that origin's main lacks, or the newest one where it lacks none."""
    lacks = _git("rev-list", "--count", "origin/main..HEAD").strip()
    base = "origin/main...HEAD" if lacks not in ("", "0") else "HEAD~1"
    return frozenset(_git("diff", "--name-only", base).splitlines())


def _git(*arguments: str) -> str:
    """Return what a command of git prints; nothing where it fails, as in a clone without origin or without history."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout
