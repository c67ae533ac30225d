"""Data of an engine that vanished from its folder: removed, emptied or overwritten."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tenantry.engine.sql.files import FILE, MAGIC, is_missed, made_mark
from tenantry.model.verdicts import path_text

GONE = "is missing"
EMPTY = "is empty"
NO_DATABASE = "is damaged or no database"

FileState = tuple[int, int, int]
"""Inode, size and time of the last change, in nanoseconds."""


CHECKED_S = 5.0
"""Seconds after which the check of a database is given up."""
_STEPS = 10_000
"""Instructions of SQLite between two looks at the clock."""


class Loss(NamedTuple):
    """A path that vanished. how: the rest of a sentence about it."""

    path: Path
    how: str

    def __str__(self) -> str:
        return f"{path_text(self.path)} {self.how}"


def loss_in(folder: Path) -> Loss | None:
    """Return what is gone of an engine whose folder was made, without a look into its file."""
    database = folder / FILE
    found = state_of(database)
    if found is not None and found[1]:
        return None
    if not folder.exists():
        return Loss(folder, GONE)
    if not is_missed(database):
        return None
    return Loss(database, EMPTY if database.exists() else GONE)


def state_of(database: str | Path) -> FileState | None:
    """Return the state of a file, None where it is not there."""
    try:
        found = os.stat(database)  # noqa: PTH116 - a path as an object costs more than the call
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def is_overwritten(database: Path) -> bool:
    """Return True if a file that was a SQLite database no longer begins like one.

    Not for one that this process has open: closing any descriptor of it would release the locks that SQLite holds.
    """
    if not made_mark(database).exists():
        return False
    try:
        with database.open("rb") as file:
            return file.read(len(MAGIC)) != MAGIC
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_whole(database: Path, seconds: float = CHECKED_S) -> bool | None:
    """Return True if SQLite finds no damage in a file, False if it finds some, None if the time does not suffice. Blocks."""
    end = time.monotonic() + seconds
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.DatabaseError as error:
        return None if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT else False
