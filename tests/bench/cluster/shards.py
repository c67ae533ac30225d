"""H7 beside a platform at rest: the memory of each of four operators that share the work, against that of one with all of it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack

from tenantry.adapters.kubernetes.shared_lease import LEDGER
from tenantry.model.sharding.ledger import parse
from tests.bench.cluster.place import Place, memory_of, place, quiet, requests_of, written
from tests.bench.cluster.standing import fill
from tests.bench.row import Row, Scale
from tests.cluster.charting import NAMESPACE
from tests.cluster.running import Operator, until

ENVIRONMENTS, TENANTS = 2000, 667
SHARDS = 4
SHARED = {"TENANTRY_CLUSTER__SHARDS": str(SHARDS)}
TAKES_OVER_S = 20.0
WAITS_S = 300.0


def measure(scale: Scale) -> Sequence[Row]:
    environments, tenants = scale.of(ENVIRONMENTS), scale.of(TENANTS)
    with place(scale.folder / "shards") as at:
        asyncio.run(fill(at, tenants, environments))
        with at.platform.operator() as operator:  # its first start makes keys, users and the Region's status
            asyncio.run(quiet(operator.process.pid))
        with at.platform.operator() as operator:
            asyncio.run(quiet(operator.process.pid))
            whole = memory_of(operator.process.pid)
        parts, writes, took = _shared(at)
    work = f"memory of the largest of {SHARDS} operators that share {environments:,} Environments"
    ratios = [part / whole for part in parts]
    figures = (f"{max(parts) / 2**20:.0f} MiB", f"{whole / 2**20:.0f} MiB")
    beside = {"smallest": f"{min(parts) / 2**20:.0f} MiB", "writes of starts and moves": str(writes)}
    late = took / TAKES_OVER_S
    return (
        Row("H7", work, "one with all of them", max(ratios), (min(ratios), max(ratios)), "lower", 1 / 3, figures, beside),
        Row("H5", "shards of a killed operator are held", "20 s", late, (late, late), "lower", 1.0, (f"{took:.1f} s", "20 s")),
    )


def _shared(at: Place) -> tuple[list[int], int, float]:
    """Return the memory of each in bytes, the writes of them all, and the seconds until the shards of a killed one are held."""
    before = asyncio.run(requests_of(at.plane))
    with ExitStack() as stack:
        running = [stack.enter_context(at.platform.operator(**SHARED)) for _ in range(SHARDS)]
        until(lambda: _holders(at) == {each.name for each in running}, "shared", WAITS_S)
        for each in running:
            asyncio.run(quiet(each.process.pid))
        memory = [memory_of(each.process.pid) for each in running]
        writes = written(before, asyncio.run(requests_of(at.plane))).total()
        return memory, writes, _taken_over(at, running)


def _taken_over(at: Place, running: Sequence[Operator]) -> float:
    running[0].end(signal.SIGKILL)
    killed = time.perf_counter()
    until(lambda: _holders(at) == {each.name for each in running[1:]}, "taken over", WAITS_S)
    return time.perf_counter() - killed


def _holders(at: Place) -> set[str]:
    """The replicas that hold a shard; none while a shard is nobody's."""
    lease = at.platform.kube.get("lease", "tenantry-operator", NAMESPACE)
    ledger = parse(lease["metadata"].get("annotations", {}).get(LEDGER, ""))
    if ledger is None or sum(len(entry.holds) for entry in ledger.entries.values()) != SHARDS:
        return set()
    return {name for name, entry in ledger.entries.items() if entry.holds}
