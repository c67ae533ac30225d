"""The part of a large table of cases that a commit runs: other files run another part, and the same files always the same.

`TENANTRY_TURN=<tree>` runs the part of that tree, as `git rev-parse COMMIT^{tree}` names it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

VARIABLE = "TENANTRY_TURN"
HERE = Path(__file__).parent


def turn(table: str, parts: int) -> int:
    """Return the part of the table whose turn it is, from 0 to `parts` - 1. Tables take turns independently."""
    drawn = hashlib.sha256(f"{table} {_tree()}".encode()).digest()
    return int.from_bytes(drawn[:8], "big") % parts


@cache
def _tree() -> str:
    """The hash of the files of the commit that is checked out: a rebase changes no verdict. Without history, as in an archive,
    all have the same turn."""
    if given := os.environ.get(VARIABLE):
        return given
    asked = subprocess.run(["git", "rev-parse", "HEAD^{tree}"], cwd=HERE, capture_output=True, text=True, check=False)
    return asked.stdout.strip()
