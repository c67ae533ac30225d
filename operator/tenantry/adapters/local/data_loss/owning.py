"""The mark in `engines.db` of the state that owns the engines: which one it is, and how new it was at their last change.

A state that is put back from a copy may not know engines that were made since. It would make empty ones in their place, at the
same URLs. The mark shows that at the start; a person may accept the older state.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class OwningState(NamedTuple):
    """The state folder's database. identity: the random name that it was given. version: of its newest committed write."""

    identity: str
    version: Callable[[], int]


class NotTheirStateError(Exception):
    """The engines belong to another state, or to a newer one than is there."""


def note(database: sqlite3.Connection, owner: OwningState) -> None:
    """Write the mark, in the open transaction."""
    database.execute("REPLACE INTO owner VALUES (0, ?, ?)", (owner.identity, owner.version()))


def check(database: sqlite3.Connection, owner: OwningState) -> None:
    """Raises NotTheirStateError. Engines without a mark, of an older release or accepted by a person, are taken over."""
    database.execute(
        "CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY, identity TEXT NOT NULL, version INTEGER NOT NULL)"
    )
    held = database.execute("SELECT identity, version FROM owner").fetchone()
    if held is None:
        return
    identity, version = held
    ways = (
        "put back the newest state.db, with state.db-wal if there is one, or run `tenantry accept-state` to go on with this one"
    )
    if identity != owner.identity:
        raise NotTheirStateError(f"state.db is not the one that made the engines in engines/; {ways}")
    if version > owner.version():
        raise NotTheirStateError(
            f"state.db is older than the engines in engines/: it ends with write {owner.version()}, and they know of write "
            f"{version}; {ways}"
        )


def forget(database: Path) -> None:
    """Remove the mark, so that the next start takes the engines over. Raises sqlite3.Error."""
    connection = sqlite3.connect(database)
    try:
        with connection:
            connection.execute("DROP TABLE IF EXISTS owner")
    finally:
        connection.close()
