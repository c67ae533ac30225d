"""P18 and the start: the memory of a platform with many environments, and how long it takes to be Ready again.

Each start is a process of its own: `python -m tests.bench.start STATE URL SINCE` prints its figures when all is Ready.
"""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tenantry.bootstrap.embedded import Platform
from tenantry.cli.processes.serving import loop_factory, tune_collector
from tenantry.kinds.registry import FOLLOWED
from tests.bench.row import Row, Scale, told
from tests.bench.served import platform

ENVIRONMENTS = 1000
GATE = 10.0


def measure(scale: Scale) -> Sequence[Row]:
    """The same start with and without environments, in turn."""
    count = scale.of(ENVIRONMENTS)
    states = {name: scale.folder / name for name in ("full", "empty")}
    urls = {"full": asyncio.run(_made(states["full"], count)), "empty": asyncio.run(_made(states["empty"], 0))}
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in states}
    for _ in range(scale.repetitions):
        for name, state in states.items():
            taken[name].append(_started(state, urls[name]))
    pairs = list(zip(taken["full"], taken["empty"], strict=True))
    return (_memory(pairs), _start(pairs, count))


Pairs = Sequence[tuple[dict[str, Any], dict[str, Any]]]


def _memory(pairs: Pairs) -> Row:
    ratios = sorted((full["memory"] - empty["memory"]) / (full["json"] - empty["json"]) for full, empty in pairs)
    full, empty = pairs[0]
    objects, size = full["objects"] - empty["objects"], full["json"] - empty["json"]
    grown = median(full["memory"] - empty["memory"] for full, empty in pairs)
    per_1000 = (f"{grown / objects * 1000 / 2**20:.1f} MiB", f"{size / objects * 1000 / 2**20:.1f} MiB")
    work, reference = f"memory per 1,000 resources, of {objects:,}", "the size of their JSON"
    return Row("P18", work, reference, median(ratios), (ratios[0], ratios[-1]), "lower", GATE, per_1000)


def _start(pairs: Pairs, count: int) -> Row:
    ratios = sorted(full["seconds"] / empty["seconds"] for full, empty in pairs)
    full, empty = (median(each["seconds"] for each in side) for side in zip(*pairs, strict=True))
    beside = {"imports and opening": told(median(empty["opened"] for _, empty in pairs)), "writes": str(pairs[0][0]["writes"])}
    work, reference = f"start to ready with {count:,} environments that exist", "the same start with none"
    return Row("start", work, reference, full / empty, (ratios[0], ratios[-1]), "lower", None, (told(full), told(empty)), beside)


async def _made(state: Path, environments: int) -> str:
    """Makes the state; the URL that its engines have."""
    async with platform(state, environments) as served:
        return served.platform.base_url


def _started(state: Path, url: str) -> dict[str, Any]:
    """Starts a platform on a copy of the state."""
    copy = state.with_suffix(".copy")
    shutil.copytree(state, copy)
    start = time.time()
    command = [sys.executable, "-m", "tests.bench.start", str(copy), url, str(start)]
    ended = subprocess.run(command, capture_output=True, check=True)
    shutil.rmtree(copy)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


async def _start_here(state: Path, url: str, since: float) -> dict[str, Any]:
    running = await Platform.open(state, url)
    opened = time.time() - since
    before = await _version(running)
    await running.start()
    await running.converged()
    seconds = time.time() - since
    sizes = [len(entry.raw) for kind in FOLLOWED for _, entry in running.state.cache.entries(kind)]
    writes = await _version(running) - before
    gc.collect()
    figures = {
        "seconds": seconds,
        "opened": opened,
        "writes": writes,
        "memory": resident(),
        "json": sum(sizes),
        "objects": len(sizes),
    }
    await running.close()
    return figures


async def _version(running: Platform) -> int:
    return int((await running.state.store.list("Region"))[1])


def resident() -> int:
    """Bytes of memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


if __name__ == "__main__":
    tune_collector()  # as `up` does
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(runner.run(_start_here(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))))
