"""P33: the memory of very many engines in one pool, idle, and after each was asked once in turn.

An engine is made and asked once; the others are copies of its folder, as 100,000 deploys would take hours.
`python -m tests.bench.p33 FOLDER` opens a pool in a process of its own and prints its figures.
"""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.cli.processes.pools.pool_process import OpenedPool
from tenantry.engine.sql.pool import IDLE_S
from tenantry.model.facts import EngineEndpoint, EngineRef
from tenantry.packages.check import inspect
from tests.bench.row import Row, Scale, told
from tests.bench.start import resident
from tests.contract.engine_admins import AdminSecret
from tests.support.pools import HOST, SPEC, URL, opened_pool, pool_of, sent

ENGINES, FEW = 100_000, 5
"""FEW: of the pool that brings the modules and caches of a process, without which the others are weighed."""
GATE = 64 << 10
AIM = "24 KiB"
TURSO = "16 KiB"
"""Of each of 100,000 databases, by the authors of its server."""
BATCH = 500
Figures = dict[str, float]


def measure(scale: Scale) -> Sequence[Row]:
    """One life of the process."""
    count = max(FEW + 1, scale.of(ENGINES))
    few, many = (_measured(scale.folder / name, number) for name, number in (("few", FEW), ("many", count)))
    more = count - FEW
    idle, asked = ((many[what] - few[what]) / more for what in ("idle", "asked"))
    beside = {"aim": AIM, "Turso": TURSO, "idle before": _kib(idle), "a request": told(many["seconds"] / count)}
    work = f"memory of each of {count:,} engines in a process, after each was asked once in turn"
    ratio = asked / GATE
    return (Row("P33", work, _kib(GATE), ratio, (ratio, ratio), "lower", 1.0, (_kib(asked), _kib(GATE)), beside),)


def _kib(size: float) -> str:
    return f"{size / 1024:.1f} KiB"


def _measured(folder: Path, count: int) -> Figures:
    folder.mkdir(parents=True)
    asyncio.run(make(folder, count))
    done = subprocess.run([sys.executable, "-m", "tests.bench.p33", str(folder)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    shutil.rmtree(folder)  # tens of gigabytes
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _ref(number: int) -> EngineRef:
    return EngineRef("tenant-acme", f"env{number}", f"id-{number}", "acme", f"env{number}", "uid-acme")


async def make(folder: Path, count: int) -> None:
    """Fill the folder of a pool with so many engines."""
    async with pool_of(folder) as kit:
        await kit.pools.deploy(replace(SPEC, ref=_ref(0)), await sent(url=f"https://{HOST}"))
        await kit.admin(_ref(0)).apps()
    folders = EngineFolders(folder / "data")
    made = folders.held("id-0")
    assert made is not None
    others = range(1, count)
    for number in others:
        shutil.copytree(folders.folder("id-0"), folders.folder(f"id-{number}"))
    folders.save([record_of(made, number) for number in others])
    folders.close()


def record_of(made: EngineRecord, number: int) -> EngineRecord:
    """Return the record of a copy."""
    return replace(made, spec=replace(made.spec, ref=_ref(number)))


async def weigh(folder: Path) -> Figures:
    """Open the pool, and ask each engine for its apps, one after the other."""
    opened = opened_pool(folder, KeyRing(folder / "keys", "tenantry"), ENGINES)
    gc.collect()
    idle = resident()
    began = time.perf_counter()
    for some in batched(sorted(opened.folders.ids)):
        await _ask(opened, folder, some)
    seconds = time.perf_counter() - began
    await asyncio.sleep(IDLE_S + 1)
    gc.collect()
    figures = {"idle": float(idle), "asked": float(resident()), "seconds": seconds}
    await opened.close()
    return figures


def batched(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield a few at a time: a client remembers each engine, and its memory is not that of the engines."""
    for first in range(0, len(ids), BATCH):
        yield ids[first : first + BATCH]


async def _ask(opened: OpenedPool, folder: Path, ids: Sequence[str]) -> None:
    transport = httpx.ASGITransport(opened.server)
    engines = HttpEngines(KeyRing(folder / "keys", "tenantry"), AdminSecret(), inspect, folder / "scratch", lambda url: transport)
    for id_ in ids:
        await engines.at(EngineEndpoint(id_, f"{URL}/e/{id_}")).apps()
    await engines.aclose()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(weigh(Path(sys.argv[1])))))
