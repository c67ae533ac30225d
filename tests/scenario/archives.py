"""Archives of tests: signed by one key, which the restores of tests trust."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

from tenantry.adapters.local import engine_backups
from tenantry.adapters.local.archives import Packing
from tenantry.adapters.local.reading import Checked, check
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.model.facts import Trust


@cache
def signing() -> ArchiveKey:
    """The key of this process."""
    key = ArchiveKey(Path(tempfile.mkdtemp()) / "backup-key")
    key.sign(b"")
    return key


def packing(*recipients: str, keys: bool = False) -> Packing:
    return Packing(signing(), recipients, keys)


def trusted() -> Trust:
    return Trust((signing().public(),))


def taken(path: Path) -> Checked:
    """An archive of these tests, which may be restored."""
    return check(path, trusted())


def back_up(data: Path, url: str | None, target: Path, recipients: Sequence[str] = ()) -> None:
    engine_backups.back_up(data, url, target, packing(*recipients))


def stream_back_up(data: Path, url: str | None, out: BinaryIO, scratch: Path, recipients: Sequence[str] = ()) -> None:
    engine_backups.stream_back_up(data, url, out, scratch, packing(*recipients))


def restore(archive: Path, data: Path, url: str | None, identity: Path | None = None) -> None:
    engine_backups.restore(archive, data, url, trusted(), identity)


def receive(archive: BinaryIO, data: Path, url: str | None, scratch: Path, identity: Path | None = None) -> None:
    engine_backups.receive(archive, data, url, scratch, trusted(), identity)
