"""The tables of the SQLite store, and how an older state folder comes to them."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from tenantry.adapters.store.sealing import SealedCodec
from tenantry.adapters.store.state_folder import StateUnreadable

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        "INSERT INTO meta VALUES ('version', '0')",
        """CREATE TABLE objects (
            kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
            body BLOB NOT NULL, -- the object's JSON
            PRIMARY KEY (kind, namespace, name)
        )""",
    ),
    (),  # 0.2 stores fields that 0.1 does not know: it refuses schema 2 by a sentence
)
"""The statements that lead from schema n to n + 1. Only ever appended to; by `()` too, if an older release must not go on."""


def prepare(folder: Path, connection: sqlite3.Connection, codec: SealedCodec) -> None:
    """Migrates in one transaction, and checks that the key is the one this state was sealed by.

    Raises StateUnreadable for another key or a schema of a newer Tenantry, sqlite3.Error.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found > len(MIGRATIONS):
            raise StateUnreadable(folder, f"its schema {found} belongs to a newer Tenantry (this one knows {len(MIGRATIONS)})")
        for statements in MIGRATIONS[found:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        _check_key(folder, connection, codec)
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (secrets.token_hex(16),))
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def read_version(cursor: sqlite3.Cursor) -> int:
    """The version of the newest committed write."""
    return int(_read(cursor, "version") or 0)


def read_identity(cursor: sqlite3.Cursor) -> str:
    """The random name that this state was given when it was made."""
    return _read(cursor, "identity") or ""


def write_version(connection: sqlite3.Connection, version: int) -> None:
    """Records the newest version, in the transaction of the writes that it counts."""
    connection.execute("UPDATE meta SET value = ? WHERE name = 'version'", (str(version),))


def _check_key(folder: Path, connection: sqlite3.Connection, codec: SealedCodec) -> None:
    mark = _read(connection.cursor(), "key")
    if mark is None:
        connection.execute("INSERT INTO meta VALUES ('key', ?)", (codec.mark(),))
    elif not codec.fits(mark):
        raise StateUnreadable(folder, "its Secrets were sealed with another key file; put that file back")


def _read(cursor: sqlite3.Cursor, name: str) -> str | None:
    row = cursor.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None
