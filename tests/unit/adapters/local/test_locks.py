"""A process that has an engine's database open keeps its locks, whatever else it does with the folder.

Without them another process, such as `tenantry engine backup` or a person's `sqlite3`, is the last one to close the database: it
removes the write-ahead log, and what this process writes from then on is lost when it is killed.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from tenantry.adapters.local.archives import mark_backed_up
from tenantry.adapters.local.data_loss.losses import is_whole, loss_in, state_of
from tenantry.adapters.local.engine_backups import back_up, database_size, is_restored
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.adapters.moving.blocks import Blocks
from tenantry.adapters.moving.leaving import LeavingEngine
from tenantry.engine.porting.chunks import moment_of_file
from tenantry.engine.service import Engine
from tenantry.engine.sql.files import FILE
from tests.scenario.archives import packing
from tests.scenario.data_world import HASHED

OTHER_PROCESS = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(*c.execute('PRAGMA schema_version')); c.close()"


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """The folder of an engine that serves in this process."""
    engine = await Engine.open(tmp_path / "engine")
    await engine.add_identity("alice", HASHED)
    yield tmp_path / "engine"
    await engine.close()


def used_by_another_process(folder: Path) -> bool:
    """Open and close the database in another process. Return True if its write-ahead log is still there."""
    subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(folder / FILE)], check=True, capture_output=True)
    return (folder / f"{FILE}-wal").exists()


async def nothing(folder: Path) -> None:
    """Leave it all to SQLite."""


async def backup(folder: Path) -> None:
    back_up(folder, None, folder.parent / "dev.tar", packing())


async def move(folder: Path, earlier: bytes = b"") -> None:
    scratch = folder.parent / "scratch"
    scratch.mkdir()
    leaving = LeavingEngine(folder, scratch, ArchiveKey(folder.parent / "key"))
    await leaving.freeze()
    async for _ in (await leaving.pack(earlier)).blocks:
        pass
    await leaving.thaw(cancelled=True)


async def move_of_changes(folder: Path) -> None:
    await move(folder, Blocks(1 << 16, b"").packed())


async def move_of_rows(folder: Path) -> None:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        earlier = moment_of_file(connection)
    assert earlier is not None
    await move(folder, earlier.packed())


async def looks(folder: Path) -> None:
    assert loss_in(folder) is None
    assert is_whole(folder / FILE)
    assert state_of(folder / FILE)
    assert database_size(folder)
    assert is_restored(folder)
    mark_backed_up(folder)


@pytest.mark.parametrize("work", [nothing, backup, move, move_of_changes, move_of_rows, looks], ids=lambda work: work.__name__)
async def test_the_locks_of_an_open_database_stay(folder: Path, work: Callable[[Path], Awaitable[None]]) -> None:
    assert (folder / f"{FILE}-wal").exists()
    await work(folder)
    assert used_by_another_process(folder)
