"""The members of an archive with their SHA-256, signed, and the folder in which an archive is made."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import orjson

from tenantry.adapters.local.signing import ArchiveKey

MANIFEST = "manifest.json"
"""The SHA-256 of every member before it, by name."""
SIGNATURE = "manifest.sig"
"""The last member: who signed the manifest, and the signature."""
_PREFIX = ".tenantry-backup-"


class MemberWriter:
    """Adds members to an archive, and at the end their digests."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.digests: dict[str, str] = {}

    def text(self, name: str, content: bytes) -> None:
        """Adds a member with that content."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), 0o600
        self.member(info, io.BytesIO(content))

    def file(self, path: Path, name: str) -> None:
        """Adds a file. Raises OSError."""
        with path.open("rb") as source:
            self.member(self._tar.gettarinfo(arcname=name, fileobj=source), source)

    def member(self, info: tarfile.TarInfo, source: IO[bytes]) -> None:
        """Adds the content of the source."""
        hashing = _Hashing(source)
        self._tar.addfile(info, hashing)  # type: ignore[arg-type]  # all that it does is to read
        self.digests[info.name] = hashing.digest.hexdigest()

    def end(self, key: ArchiveKey) -> None:
        """Adds the digests, and their signature. Raises Invalid, OSError."""
        manifest = orjson.dumps(self.digests, option=orjson.OPT_INDENT_2)
        self.text(MANIFEST, manifest)
        public, signature = key.sign(manifest)
        self.text(SIGNATURE, orjson.dumps({"key": public, "signature": signature}))


class _Hashing:
    """A file that is hashed while it is read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        block = self._source.read(size)
        self.digest.update(block)
        return block


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A folder of its own in the parent, for this block. Those of backups that were killed are removed. Raises OSError."""
    for left in parent.glob(f"{_PREFIX}*"):
        _remove_unused(left)
    folder, descriptor = _held(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _held(parent: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor that locks it; the kernel ends the lock with the process."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # another backup removed it as a leftover before it was locked
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():
            return folder, descriptor
        os.close(descriptor)


def _remove_unused(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.geteuid():
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return  # it is being written
    finally:
        os.close(descriptor)
