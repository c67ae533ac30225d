"""A `git` that fails, loses its answer, or ends its caller by SIGKILL, at one chosen command; for tests."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

MODES = ("fail", "lose")
KILLS = ("kill-before", "kill-after")
_SCRIPT = """#!/bin/sh
test -e "{folder}/plan" || exec {git} "$@"
read -r at mode < "{folder}/plan"
count=$(($(cat "{folder}/count" 2>/dev/null || echo 0) + 1))
echo "$count" > "{folder}/count"
test "$count" -eq "$at" || exec {git} "$@"
case "$mode" in
fail) echo "fatal: out of order" >&2; exit 1 ;;
lose) {git} "$@" > /dev/null 2>&1; echo "fatal: the connection broke" >&2; exit 1 ;;
kill-before) kill -9 "$PPID" ;;
kill-after) {git} "$@" > /dev/null 2>&1; kill -9 "$PPID" ;;
esac
"""


@dataclass(frozen=True)
class FailingGit:
    """A folder to put before all others into PATH. Its `git` is the real one until it is armed."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> FailingGit:
        folder.mkdir()
        script = folder / "git"
        script.write_text(_SCRIPT.format(folder=folder, git=shutil.which("git")))
        script.chmod(0o755)
        return cls(folder)

    def arm(self, at: int, mode: str = "none") -> None:
        """Strikes at the command of that number, from 1; 0 only counts."""
        (self.folder / "count").write_text("0")
        (self.folder / "plan").write_text(f"{at} {mode}\n")

    def disarm(self) -> int:
        """How many commands there were since it was armed."""
        (self.folder / "plan").unlink()
        return int((self.folder / "count").read_text() or 0)
