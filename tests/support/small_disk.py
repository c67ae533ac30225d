"""A small file system of its own, which tests fill."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE = 8 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own. Skips where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def full(disk: Path, room: int) -> Iterator[None]:
    """Leaves so many bytes."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while (free := shutil.disk_usage(disk).free - room) > 0:
            if not file.write(b"\0" * min(free, 1 << 20)):
                break
    yield
    filler.unlink()
