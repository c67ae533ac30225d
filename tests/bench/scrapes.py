"""O2: a scrape of a platform with 10,000 environments: at most 20 ms of processor time, and the series of one with ten."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

import httpx

from tenantry.cli.processes.engine_metrics import engine_metrics_served
from tenantry.cli.processes.serving import loop_factory
from tenantry.model.measures import EngineHoldings
from tests.bench.row import Row, Scale
from tests.bench.served import platform

MANY, FEW = 10_000, 10
SCRAPES = 30
MOST_S = 0.020


class Scraped(NamedTuple):
    """series: names with labels. cpu: of each scrape, in seconds, of this process, which is the client too."""

    series: frozenset[str]
    cpu: tuple[float, ...]


def measure(scale: Scale) -> Sequence[Row]:
    """One row. The gate is its time; that the series are the same is a bound beside."""
    count = max(FEW, scale.of(MANY))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        many, few = (runner.run(_scraped(scale, number)) for number in (count, FEW))
    ours, theirs = min(many.cpu), min(few.cpu)
    spread = min(many.cpu) / theirs, max(many.cpu) / theirs
    differ = sorted(many.series ^ few.series)
    beside = {"series": f"{len(many.series)} and {len(few.series)}", "at most": f"{MOST_S * 1000:.0f} ms"}
    beside |= {"differ": ", ".join(differ[:3])} if differ else {}
    figures = (f"{ours * 1000:.1f} ms cpu", f"{theirs * 1000:.1f} ms cpu")
    work, reference = f"a scrape of {count:,} environments", f"a scrape of {FEW} environments"
    held = ours <= MOST_S and not differ
    return (Row("O2", work, reference, ours / theirs, spread, "lower", None, figures, beside, held),)


async def _scraped(scale: Scale, environments: int) -> Scraped:
    async def count() -> EngineHoldings:
        return EngineHoldings()

    async with (
        platform(scale.folder / f"o2-{environments}", environments) as served,
        engine_metrics_served("127.0.0.1:0", served.platform.hosting.measures, count, served.platform.numbers) as address,
        httpx.AsyncClient(base_url=f"http://{address}") as client,
    ):
        times, text = [], ""
        await client.get("/metrics")  # the first one makes the registry
        for _ in range(SCRAPES):
            before = time.process_time()
            text = (await client.get("/metrics")).text
            times.append(time.process_time() - before)
    lines = (line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#"))
    return Scraped(frozenset(lines), tuple(times))
