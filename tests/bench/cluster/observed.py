"""O7 on a cluster: the share of P1's CPU time that the operator's metrics take, and that its traces take.

Three sides by turns, each on an API server of its own: an operator that counts nothing, one whose numbers are scraped, and
one that is scraped and sends its traces. The difference of operators is divided by the CPU time of P1 as a whole:
the operator, the API server, etcd, and who declares. The least of each side is compared, because all that else a machine does
only adds.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tenantry.adapters.kubernetes.store import KubernetesStore
from tests.bench.cluster.declaring import REGION, Declaring
from tests.bench.cluster.place import CLIENTS, Place, client_of, cpu_of, object_, place, quiet
from tests.bench.row import Row, Scale
from tests.cluster.running import Operator
from tests.support.trace_collector import collecting

TENANTS = 1000
EVERY_S = 15
"""Between two scrapes: half of the interval of the chart."""
METRICS, TRACES = 1.01, 1.05
UNCOUNTED = """
from tenantry.bootstrap import cluster
from tests.bench.observed import no_metrics

no_metrics(cluster).__enter__()
"""
"""Python runs it at the start of an operator that counts nothing."""


class Cpu(NamedTuple):
    """CPU seconds of the operator, and of all processes."""

    operator: float
    total: float


def measure(scale: Scale) -> Sequence[Row]:
    """Both rows."""
    count, numbers = scale.of(TENANTS), itertools.count()
    took: dict[str, list[Cpu]] = {"nothing": [], "metrics": [], "traces": []}
    for _ in range(scale.repetitions):
        for side, found in took.items():
            with place(scale.folder / f"{side}-{next(numbers)}") as at:
                found.append(_side(at, side, count))
    least = {side: min(each.operator for each in found) for side, found in took.items()}
    whole = min(each.total for each in took["nothing"])
    return [
        _row(took, whole, least, "metrics", "nothing", METRICS, f"P1 with {count:,} Tenants: metrics, scraped each {EVERY_S} s"),
        _row(took, whole, least, "traces", "metrics", TRACES, f"P1 with {count:,} Tenants: traces of all changes"),
    ]


def _row(
    took: Mapping[str, list[Cpu]], whole: float, least: Mapping[str, float], side: str, beside: str, gate: float, work: str
) -> Row:
    def share(more: float) -> float:
        return 1 + more / whole

    pairs = zip(took[side], took[beside], strict=True)
    spread = sorted(share(ours.operator - theirs.operator) for ours, theirs in pairs)
    ratio = share(least[side] - least[beside])
    figures = (f"{least[side]:.2f} s cpu of the operator", f"{least[beside]:.2f} s")
    told = {"cpu of all": f"{whole:.1f} s"}
    return Row(
        "O7",
        work,
        f"the same with {beside}",
        ratio,
        (min(spread[0], ratio), max(spread[-1], ratio)),
        "lower",
        gate,
        figures,
        told,
    )


def _side(at: Place, side: str, count: int) -> Cpu:
    with ExitStack() as stack:
        variables = {"TENANTRY_WORKERS": str(CLIENTS)}
        if side == "nothing":
            variables["PYTHONPATH"] = _uncounted(at.plane.folder)
        if side == "traces":
            variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = stack.enter_context(collecting()).url
        operator = stack.enter_context(at.platform.leader(**variables))
        asyncio.run(quiet(operator.process.pid))
        if side != "nothing":
            stack.enter_context(_scraped(operator))
        return asyncio.run(_run(at, operator.process.pid, count))


def _uncounted(folder: Path) -> str:
    (folder / "sitecustomize.py").write_text(UNCOUNTED)
    return os.pathsep.join((str(folder), *filter(None, sys.path)))


@contextmanager
def _scraped(operator: Operator) -> Iterator[None]:
    """Read the operator's numbers as Prometheus does."""
    ended = threading.Event()

    def scrape() -> None:
        while True:
            urllib.request.urlopen(operator.metrics, timeout=30).read()
            if ended.wait(EVERY_S):
                return

    thread = threading.Thread(target=scrape, name="scrapes")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def _run(at: Place, pid: int, count: int) -> Cpu:
    async with client_of(at.admin) as admin:
        await KubernetesStore(admin).create(object_("Region", REGION))
        processes = (os.getpid(), *(process.pid for process in at.plane.running.values()), pid)
        before, all_before = cpu_of(pid), sum(map(cpu_of, processes))
        await Declaring(admin, count).run()
        return Cpu(cpu_of(pid) - before, sum(map(cpu_of, processes)) - all_before)
