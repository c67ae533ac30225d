"""age: the keys of a file, and streams that are encrypted and decrypted in constant memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyrage

from tenantry.model.verdicts import Invalid, Problem

LARGEST_KEYS = 1 << 20
_HEADERS = (b"age-encryption.org/v1\n", b"-----BEGIN AGE ENCRYPTED FILE-----")


def read_identities(key_file: Path) -> list[Any]:
    """The keys of a file: one a line, `#` begins a comment. Blocks. Raises ValueError with a sentence that shows no key."""
    try:
        with key_file.open("rb") as file:
            lines = file.read(LARGEST_KEYS).decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"the key file {key_file} cannot be read: {reason}") from None
    found: list[Any] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                found.append(pyrage.x25519.Identity.from_str(line.strip()))
            except pyrage.IdentityError:  # whose text may hold the line
                raise ValueError(f"line {number} of the key file {key_file} is not an AGE-SECRET-KEY") from None
    return found


def read_recipients(recipients: Sequence[str]) -> list[Any]:
    """Raises Invalid."""
    found = []
    for each in recipients:
        try:
            found.append(pyrage.x25519.Recipient.from_str(each))
        except pyrage.RecipientError:
            raise Invalid((Problem(each[:100], "is not a public key of age; one begins with age1, see `age-keygen`"),)) from None
    return found


@contextmanager
def encrypted(out: BinaryIO, recipients: Sequence[str]) -> Iterator[BinaryIO]:
    """A stream whose content goes to `out` encrypted for these recipients; `out` itself for none. Raises Invalid, OSError.

    If the block raises, `out` holds the encrypted beginning of the content.
    """
    keys = read_recipients(recipients)
    if not keys:
        yield out
        return
    reading, writing = os.pipe()
    target = _Target(out)

    def run() -> None:
        with os.fdopen(reading, "rb") as plain:
            try:
                pyrage.encrypt_io(plain, target, keys)
            except Exception as error:  # noqa: BLE001 - raised below, in the thread of the caller
                target.failed = target.failed or error

    thread = threading.Thread(target=run, name="age")
    thread.start()
    try:
        with os.fdopen(writing, "wb") as plain:
            yield plain
    except BrokenPipeError:
        if target.failed is None:
            raise
    finally:
        thread.join()
    if target.failed is not None:
        raise target.failed


def is_encrypted(path: Path) -> bool:
    """Return True if the file begins as files of age do. Blocks. Raises OSError."""
    with path.open("rb") as file:
        return file.read(max(map(len, _HEADERS))).startswith(_HEADERS)


def decrypt(path: Path, target: BinaryIO, key_file: Path) -> None:
    """Writes what the file holds to `target`, all of it or a part of it when it raises. Blocks. Raises Invalid, OSError."""
    try:
        identities = read_identities(key_file)
    except ValueError as error:
        raise Invalid((Problem("--identity", str(error)),)) from None
    checked = _Target(target)
    try:
        with path.open("rb") as source:
            pyrage.decrypt_io(source, checked, identities)
    except pyrage.DecryptError as error:
        raise checked.failed or Invalid((Problem(str(path), f"no key of {key_file} opens it"),)) from error
    except OSError as error:
        raise checked.failed or Invalid((Problem(str(path), "is broken: it is not what was encrypted"),)) from error


class _Target:
    """A file that is written, and remembers the error that pyrage hides."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.failed: Exception | None = None

    def write(self, block: bytes) -> int:
        try:
            return self._file.write(block)
        except OSError as error:
            self.failed = error
            raise

    def flush(self) -> None:
        self._file.flush()
