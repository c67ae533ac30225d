"""Limits that SQLite itself keeps, on each connection to an engine's database.

A check that an older version took, or that came with a restored archive, is not weighed again: these hold for it, too. SQLite's
limits of the heap are those of a process. One tenant's statement would then fail another's, so none is set.
"""

from __future__ import annotations

import sqlite3

LARGEST_VALUE = 64 << 20
"""Bytes of a value, and of a row: an expression cannot make more."""
LONGEST_PATTERN = 4096
"""Bytes of a pattern of LIKE or GLOB: a constant of a check has at most 1000 characters, that of a filter 256."""
DEEPEST_EXPRESSION = 1000
"""Levels of an expression: a check of 1000 characters, stored long ago, must be read for ever."""

LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LARGEST_VALUE,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: LONGEST_PATTERN,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: DEEPEST_EXPRESSION,
}
"""By SQLite's number of each."""


def bound(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Set the limits of a new connection, and return it."""
    for limit, most in LIMITS.items():
        connection.setlimit(limit, most)
    return connection
