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
echo "$$ $(echo "$*" | tr '\\n' ' ') " >> "{folder}/commands"
count=$(grep -n -m 1 "^$$ " "{folder}/commands")
test "${{count%%:*}}" = "$at" || exec {git} "$@"
case "$mode" in
fail) echo "fatal: out of order" >&2; exit 1 ;;
lose) {git} "$@" > /dev/null 2>&1; echo "fatal: the connection broke" >&2; exit 1 ;;
kill-before) kill -9 "$PPID" ;;
kill-after) {git} "$@" > /dev/null 2>&1; kill -9 "$PPID" ;;
esac
"""


@dataclass(frozen=True)
class FailingGit:
    """A folder to put before all others into PATH. Its `git` is the real one until it is armed.

    Each command appends a line with its process id and its arguments to a file, and its number is that line's. A sync in the
    background runs commands at any time, so several may run at once: a file that holds a number would lose some of them, and be
    empty for a moment.
    """

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
        (self.folder / "commands").write_text("")
        (self.folder / "plan.new").write_text(f"{at} {mode}\n")
        (self.folder / "plan.new").replace(self.folder / "plan")

    def number_of(self, command: str) -> int:
        """Return the number of the first command since it was armed that ran `git ... command ...`."""
        lines = (self.folder / "commands").read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if f" {command} " in line)

    def disarm(self) -> int:
        """The number of commands since it was armed."""
        (self.folder / "plan").unlink()
        return len((self.folder / "commands").read_text().splitlines())
