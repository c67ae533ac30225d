"""The state folder of the embedded host: held by one process at a time, with the key that its secrets are sealed by."""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tenantry.model.verdicts import Halt, Stalled, Transient, path_text
from tenantry.rest.disk import make_durable

KEY_FILE = "secret.key"
LOCK_FILE = "lock"
KEY_BYTES = 32

PASSWORD_FILE = "admin-password"  # noqa: S105 - a file's name
PASSWORD_BYTES = 24
PUT_BACK = "stop the platform and put the file back from a copy"
_MAGIC = b"SQLite format 3\x00"


class StateInUse(Halt):
    """Another process holds the state folder."""

    def __init__(self, folder: Path, holder: str) -> None:
        by = f" by process {holder}" if holder else ""
        super().__init__(Stalled("StateInUse", f"the state folder {path_text(folder)} is in use{by}", "Operator"))


class StateUnwritable(Halt):
    """The disk is full, the folder read-only, or the disk fails. Nothing of the write is kept; it can be tried again."""

    def __init__(self, folder: Path, cause: Exception | str) -> None:
        super().__init__(Transient("StateUnwritable", f"the state folder {path_text(folder)} cannot be written: {cause}"))


class StateUnreadable(Halt):
    """The state cannot be used as it is: a lost or foreign key, a newer schema, a damaged file."""

    def __init__(self, folder: Path, cause: Exception | str) -> None:
        super().__init__(Stalled("StateUnreadable", f"the state in {path_text(folder)} cannot be read: {cause}", "Operator"))


class FolderLock:
    """Holds a folder against other processes until `release`; the kernel releases it when the process dies."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder (0700) where it is missing. Raises StateInUse, StateUnwritable."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateUnwritable(folder, error.strerror or error) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._fd, 20, 0).decode(errors="replace").strip()
            os.close(self._fd)
            raise StateInUse(folder, holder) from error
        # The pid is only for the message; on a full disk the lock works without it.
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Lets the next process have the folder."""
        os.close(self._fd)


class DatabaseFile:
    """Watches the database that a process has open: one that was removed or overwritten takes no acknowledged write.

    SQLite itself would go on writing to the removed file. Its descriptor stays open as long as SQLite has the file: closing
    any descriptor of it would release the locks of this process.
    """

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = folder
        self._path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._held = os.fstat(self._fd)

    def check(self) -> None:
        """Raises StateUnreadable when the file is gone, another one, or no database any more."""
        try:
            there = self._path.stat()
        except OSError:
            raise StateUnreadable(self._folder, f"{self._path.name} was removed while it was in use; {PUT_BACK}") from None
        if not os.path.samestat(there, self._held):
            raise StateUnreadable(self._folder, f"{self._path.name} was replaced while it was in use; {PUT_BACK}")
        if os.pread(self._fd, len(_MAGIC), 0) != _MAGIC:
            raise StateUnreadable(self._folder, f"{self._path.name} was overwritten while it was in use; {PUT_BACK}")

    def close(self) -> None:
        """Lets the file go. SQLite must have closed it before."""
        os.close(self._fd)


def holds_state(folder: Path, database: str) -> bool:
    """Return True if the folder has a database that was written once. Raises StateUnreadable for what is no file.

    SQLite would make an empty file a new database. Its log may hold all of it when the process was killed.
    """
    path, log = folder / database, folder / f"{database}-wal"
    if not path.exists():
        return False
    if not path.is_file():
        raise StateUnreadable(folder, f"{database} is not a file; {PUT_BACK}")
    return any(each.is_file() and each.stat().st_size for each in (path, log))


def refuse_orphaned_engines(folder: Path, database: str) -> None:
    """Raises StateUnreadable where engines are kept, and what says whose they are is gone: new ones would be made beside them."""
    engines = folder / "engines"
    if engines.is_dir() and any(engines.iterdir()):
        ways = f"put {database} back from a copy, or, to start empty, move {engines} elsewhere"
        state = "empty" if (folder / database).exists() else "missing"
        raise StateUnreadable(folder, f"{database} is {state}, and {engines} holds engines that it knew; {ways}")


def read_key(folder: Path, *, make: bool) -> bytes:
    """The folder's key, 32 bytes; a new one (0600, durable) where there is none and `make` allows it.

    Raises StateUnreadable when it is missing or no key, StateUnwritable when it cannot be made.
    """
    path = folder / KEY_FILE
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        if not make:
            raise StateUnreadable(
                folder, f"its key file {path_text(path)} is missing, and without it no Secret can be read; put it back"
            ) from None
        return _make_key(folder)
    except OSError as error:
        raise StateUnreadable(folder, error) from error
    if len(key) != KEY_BYTES:
        raise StateUnreadable(folder, f"{path_text(path)} is not a key: it has {len(key)} bytes, not {KEY_BYTES}; {PUT_BACK}")
    return key


def derive(key: bytes, purpose: str) -> bytes:
    """A key of its own for one purpose, so that no key serves two."""
    return HKDFExpand(hashes.SHA256(), KEY_BYTES, f"tenantry/{purpose}".encode()).derive(key)


def sentence(error: sqlite3.Error) -> str:
    """Return a sentence on which a person can act."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return "no space is left on the disk"
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY:
        return "it is read-only"
    return str(error)


def _make_key(folder: Path) -> bytes:
    key = secrets.token_bytes(KEY_BYTES)
    new = folder / f"{KEY_FILE}.new"
    try:
        new.unlink(missing_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, key)
            os.fsync(fd)
        finally:
            os.close(fd)
        new.rename(folder / KEY_FILE)
        make_durable(folder)
    except OSError as error:
        raise StateUnwritable(folder, error.strerror or error) from error
    return key


def password_file(folder: Path) -> str:
    """The password in `<folder>/admin-password` (0600), made at the first call; who edits the file changes it. Blocks."""
    path = folder / PASSWORD_FILE
    if not path.exists():
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_urlsafe(PASSWORD_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
        make_durable(folder)
    return path.read_text(encoding="utf-8").strip()
