"""P19: the memory of many idle engines in one process, against as many open SQLite handles that have read a table.

`python -m tests.bench.handles WHAT COUNT FOLDER` opens them in a process of its own and prints the bytes by which it grew.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tenantry.engine.service import Engine
from tenantry.engine.sql.files import FILE
from tenantry.engine.sql.pool import IDLE_S
from tenantry.model.facts import Password
from tests.bench.row import Row, Scale
from tests.bench.start import resident

ENGINES = 1000
GATE = 2.0
ADMIN = "$argon2id$v=19$m=19456,t=2,p=1$atfYlsCir6e8ESU50zGS3A$HeUco/c8Hgol8bLHZ01eo7PEn+Q7n4V0oph9uRvYbLQ"
"""A hash that is taken as it is: making one for each engine takes a minute."""
WARM = 5
"""Engines that are opened before the first look: they bring the modules and caches of the process."""


def measure(scale: Scale) -> Sequence[Row]:
    """Both, in turn, on the same folders."""
    count, folder = scale.of(ENGINES), scale.folder / "P19"
    asyncio.run(_make(count, folder))
    pairs = [(_grown("engines", count, folder), _grown("handles", count, folder)) for _ in range(max(1, scale.repetitions // 2))]
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    ours, theirs = (median(side) / count for side in zip(*pairs, strict=True))
    figures = (f"{ours / 1024:.1f} KiB each", f"{theirs / 1024:.1f} KiB each")
    work, reference = f"memory of {count:,} idle engines in one process", "as many sqlite3 handles that have read a table"
    return (Row("P19", work, reference, ours / theirs, (ratios[0], ratios[-1]), "lower", GATE, figures),)


def _grown(what: str, count: int, folder: Path) -> int:
    command = [sys.executable, "-m", "tests.bench.handles", what, str(count), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return int(done.stdout)


async def _make(count: int, folder: Path) -> None:
    admin = Password(hash=ADMIN, fingerprint="same")
    for data in _files(count, folder):
        engine = await Engine.open(data)
        await engine.set_admin_password(admin)
        await engine.close()


def _files(count: int, folder: Path) -> list[Path]:
    return [folder / str(number) for number in range(count + WARM)]


async def _engines(count: int, folder: Path) -> int:
    """Open them all, and wait until their connections are idle for long enough to close."""
    held = []
    for number, data in enumerate(_files(count, folder)):
        if number == WARM:
            gc.collect()
            before = resident()
        engine = await Engine.open(data)
        await engine.apps()
        held.append(engine)
    await asyncio.sleep(IDLE_S + 1)
    gc.collect()
    grown = resident() - before
    for engine in held:
        await engine.close()
    return grown


def _handles(count: int, folder: Path) -> int:
    held = []
    for number, data in enumerate(_files(count, folder)):
        if number == WARM:
            gc.collect()
            before = resident()
        connection = sqlite3.connect(data / FILE)
        connection.execute("SELECT count(*) FROM _tenantry_installed").fetchone()
        held.append(connection)
    gc.collect()
    return resident() - before


if __name__ == "__main__":
    _, what, count, folder = sys.argv
    print(asyncio.run(_engines(int(count), Path(folder))) if what == "engines" else _handles(int(count), Path(folder)))
