"""Functions of SQLite that its own do not replace."""

from __future__ import annotations

import sqlite3
from typing import Any

EXACT = "tenantry_exact"
"""A double as a text that holds all of its digits. Other values stay as they are."""


def add_functions(connection: sqlite3.Connection) -> None:
    """Make the functions known to a connection."""
    connection.create_function(EXACT, 1, _exact, deterministic=True)


def _exact(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value
