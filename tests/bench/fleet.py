"""Environments in one process, at three sizes: the time until all are Ready, that of a start with all of them, and the memory.

Each is a process of its own: `python -m tests.bench.fleet make|start STATE COUNT` prints its figures when all is Ready.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tenantry.bootstrap.embedded import Platform
from tenantry.cli.processes.serving import loop_factory, tune_collector
from tests.bench.row import Row, Scale, told
from tests.bench.start import resident
from tests.scenario.rest_world import declare

SIZES = (1000, 3000, 10_000)
GATE = 1.5
"""The most that an environment of the largest fleet may cost, as a multiple of its cost in the smallest."""
URL = "http://127.0.0.1:1"
TENANT = "acme"
Figures = dict[str, float]


def measure(scale: Scale) -> Sequence[Row]:
    """One run of each size; the smallest is the reference of the others."""
    counts = [scale.of(size) for size in SIZES if not scale.only or str(size) in scale.only]
    made = [apart("make", scale.folder / f"fleet-{count}", count) for count in counts]
    started = [apart("start", scale.folder / f"fleet-{count}", count) for count in counts]
    rows = []
    for count, first, again in zip(counts, made, started, strict=True):
        beside = {"writes": f"{again['writes']:.0f}"}
        rows.append(_row(count, "embedded to Ready", "seconds", told, first, (counts[0], made[0]), {}))
        rows.append(_row(count, "that exist: start to idle", "seconds", told, again, (counts[0], started[0]), beside))
        rows.append(_row(count, "that exist: resident memory", "memory", _mib, again, (counts[0], started[0]), {}))
    return rows


def _row(
    count: int,
    work: str,
    what: str,
    say: Callable[[float], str],
    taken: Figures,
    least: tuple[int, Figures],
    beside: dict[str, str],
) -> Row:
    fewest, reference = least
    ratio = (taken[what] / count) / (reference[what] / fewest)
    figures = (say(taken[what]), say(reference[what]))
    work, of = f"{count:,} environments {work}", f"{fewest:,} of them, for each"
    return Row("fleet", work, of, ratio, (ratio, ratio), "lower", GATE, figures, beside)


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"


def apart(what: str, state: Path, count: int) -> Figures:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.fleet", what, str(state), str(count)], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


async def _make(state: Path, count: int) -> Figures:
    """Declare them all at once, and wait until they are Ready."""
    running = await Platform.open(state, URL)
    await running.start()
    await declare(running, "Region", "here", {})
    await declare(running, "Tenant", TENANT, {})
    await running.converged()
    began, cpu = time.perf_counter(), time.process_time()
    spec, namespace = {"region": "here", "engine": {"size": "small"}}, f"tenant-{TENANT}"
    await asyncio.gather(*(declare(running, "Environment", f"env-{number}", spec, namespace) for number in range(count)))
    await running.converged()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    _check(running, count)
    await running.close()
    return {"seconds": seconds, "cpu": cpu}


async def _start(state: Path, count: int) -> Figures:
    """Start on what exists, from the opening of the store until nothing is left to do."""
    began = time.perf_counter()
    running = await Platform.open(state, URL)
    before = await _version(running)
    await running.start()
    await running.converged()
    seconds = time.perf_counter() - began
    _check(running, count)
    gc.collect()
    figures = {"seconds": seconds, "writes": await _version(running) - before, "memory": resident()}
    await running.close()
    return figures


def _check(running: Platform, count: int) -> None:
    ready = sum(each.ready for each in running.state.cache.resources("Environment"))
    if ready != count:
        raise RuntimeError(f"{ready} of {count} environments are Ready")


async def _version(running: Platform) -> int:
    return int((await running.state.store.list("Region"))[1])


if __name__ == "__main__":
    tune_collector()  # as `up` does
    _, what, state, count = sys.argv
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(runner.run((_make if what == "make" else _start)(Path(state), int(count)))))
