"""P1 to P3: Tenants with an Environment each, from their declaration to Ready; beside the floor, and stock kopf handlers.

Each run is on an API server of its own. cpu: of every process, the API server's and etcd's among them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from tenantry.adapters.kubernetes.store import KubernetesStore
from tests.bench.cluster.declaring import REGION, Declaring
from tests.bench.cluster.floor import Floor
from tests.bench.cluster.place import (
    CLIENTS,
    Counts,
    Place,
    client_of,
    cpu_of,
    object_,
    place,
    quiet,
    requests_of,
    written,
)
from tests.bench.row import Row, Scale, Times, Took, row
from tests.scenario.cli import environment as variables

TENANTS = 1000
Working = Callable[[Place], AbstractContextManager[int | None]]
"""The process that works while all is declared; None where the declaring itself is the work."""


def measure(scale: Scale) -> Sequence[Row]:
    """Ours, the floor and the handlers by turns."""
    count = scale.of(TENANTS)
    numbers = itertools.count()
    sides: Mapping[str, Working] = {
        "ours": _ours,
        "floor": _floor,
        "stock": partial(_stock, "official"),
        "stock by ours": partial(_stock, "ours"),
    }
    took: dict[str, list[Took]] = {side: [] for side in sides}
    writes: dict[str, Counts] = {}
    for _ in range(scale.repetitions):
        for side, working in sides.items():
            with place(scale.folder / f"{side}-{next(numbers)}") as at:
                one, writes[side] = asyncio.run(_run(at, working, count))
            took[side].append(one)
    work = f"Kubernetes: {count:,} Tenants and {count:,} Environments to Ready, engines played"
    floor, stock, by_ours = (Times(took["ours"], took[side]) for side in ("floor", "stock", "stock by ours"))
    per = {side: f"{counted.total() / count:.1f}" for side, counted in writes.items()}
    beside: dict[str, Any] = {"writes of both": f"{per['ours']} and {per['floor']}", "clients": str(CLIENTS)}
    theirs: dict[str, Any] = {"writes of theirs": per["stock"]}
    return (
        row("P1", work, "the floor: each write that must happen, once", floor, "lower", 2.0, **beside),
        row("P2", work, "stock kopf handlers, the same objects", stock, "lower", 0.8, **theirs),
        row("P2", work, "the same handlers, by Tenantry's own client", by_ours, "lower", None),
        _writes(writes["ours"], writes["floor"], count),
    )


async def _run(at: Place, working: Working, count: int) -> tuple[Took, Counts]:
    """One side, which is up before, until all is Ready."""
    async with client_of(at.admin) as admin, client_of(at.operator) as operator:
        await KubernetesStore(admin).create(object_("Region", REGION))
        with working(at) as pid:
            if pid is not None:
                await quiet(pid)
            processes = (os.getpid(), *(process.pid for process in at.plane.running.values()), *filter(None, (pid,)))
            cpu, counted = sum(map(cpu_of, processes)), await requests_of(at.plane)
            if pid is None:
                seconds = await Floor(admin, operator, at.platform.api_url).run(count, count)
            else:
                seconds = await Declaring(admin, count).run()
            took = Took(seconds, sum(map(cpu_of, processes)) - cpu)
            return took, written(counted, await requests_of(at.plane))


@contextmanager
def _ours(at: Place) -> Iterator[int | None]:
    with at.platform.operator(TENANTRY_WORKERS=str(CLIENTS)) as operator:
        yield operator.process.pid


@contextmanager
def _floor(at: Place) -> Iterator[int | None]:
    """It has no process of its own."""
    yield None


@contextmanager
def _stock(client: str, at: Place) -> Iterator[int | None]:
    command = [sys.executable, "-m", "tests.bench.cluster.stock", client, at.platform.api_url]
    with (at.plane.folder / "stock.log").open("wb") as log:
        given = variables() | {"KUBECONFIG": str(at.operator), "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, env=given, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def _writes(ours: Counts, floor: Counts, count: int) -> Row:
    """Writes for each tenant. Events and the Region's count of environments are not among them."""
    beside = sum(told for (_, resource), told in ours.items() if resource in ("events", "regions/status"))
    per, least = ((ours.total() - beside) / count, floor.total() / count)
    ratio, gate = per / least, (least + 2) / least
    kinds = Counter({resource: 0 for _, resource in ours})
    for counts, sign in ((ours, 1), (floor, -1)):
        for (_, resource), told in counts.items():
            kinds[resource] += sign * told
    more = ", ".join(f"{resource} {told / count:+.1f}" for resource, told in kinds.items() if abs(told) * 20 > count)
    work = "writes of a Tenant and its Environment, one more allowed for each"
    return Row("P3", work, "the floor's", ratio, (ratio, ratio), "lower", gate, (f"{per:.1f}", f"{least:.1f}"), {"differ": more})
