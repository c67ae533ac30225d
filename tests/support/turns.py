"""The part of a large table of cases that a commit runs: another commit runs another part, and a commit always the same.

`TENANTRY_TURN=<commit>` runs the part of that commit.
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
    drawn = hashlib.sha256(f"{table} {_commit()}".encode()).digest()
    return int.from_bytes(drawn[:8], "big") % parts


@cache
def _commit() -> str:
    """The hash of the commit that is checked out. Without history, as in an archive, all have the same turn."""
    if given := os.environ.get(VARIABLE):
        return given
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    return asked.stdout.strip()
