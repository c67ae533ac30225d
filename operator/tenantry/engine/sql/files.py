"""Names of the files of an engine, without the libraries that open them."""

from __future__ import annotations

from pathlib import Path

from tenantry.model.verdicts import Halt, Stalled, path_text

FILE = "engine.db"
DATABASE_DAMAGED = "DatabaseDamaged"
"""The reason of a halt: a statement found the file damaged."""
MAGIC = b"SQLite format 3\x00"
"""The first bytes of a SQLite database."""
BACKED_UP = "last-backup"
"""An empty file in the folder of an engine: its time is that of the last whole backup."""
ID_FILE = f"{FILE}.id"


def made_mark(file: Path) -> Path:
    """The file that stays beside a SQLite database from its first write on."""
    return file.with_name(f"{file.name}.made")


def is_missed(file: Path, *, made: bool = False) -> bool:
    """Return True if a SQLite database was written to and is gone or empty. made: it is known that it was. Blocks.

    The mark follows a first write, so it is looked at before the file: the other way round, a write between misses a whole one.
    """
    return (made or made_mark(file).exists()) and not _holds_data(file)


def _holds_data(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False


def data_missing(path: Path, how: str = "is gone, with the engine's data") -> Halt:
    """Return the halt for a database that held data and has vanished. how: the rest of the sentence about it."""
    told = f"{path_text(path)} {how}. Put it back, or see `tenantry describe` of its environment for other ways out"
    return Halt(Stalled("DataMissing", told, "Operator"))


class FoundDamage:
    """The damage that a statement found in a SQLite file, until another file takes its place."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: tuple[int, Halt] | None = None
        """The inode of the file, and what the statement was answered."""

    def note(self, halt: Halt) -> None:
        """Remember what a statement is answered."""
        self._found = (self._inode(), halt)

    @property
    def halt(self) -> Halt | None:
        """The answer to the statement; None while the file is whole, or when another took its place."""
        return self._found[1] if self._found is not None and self._found[0] == self._inode() else None

    def _inode(self) -> int:
        try:
            return self._file.stat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            return 0
