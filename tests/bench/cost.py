"""H8, `make cost`: what an environment costs in each placement, as a table for docs/benchmarks.md.

`python -m tests.bench.cost [--share PART]`. API writes and objects want the programs of `make bench-cluster`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench import dedicated, fleet, pooled
from tests.bench.cluster import pooled as on_a_cluster
from tests.bench.command import on_disk
from tests.bench.row import Scale
from tests.support.pool_server_fixtures import running_server_of_pools

STARTS = 3
IN_A_POOL = 100
FLEETS = (100, 1000)
NOISE = 16 << 10
"""Less is no more than the difference of two starts."""
TITLES = ("placement", "memory", "CPU to start", "API writes", "objects")


class Cost(NamedTuple):
    """A line of the table."""

    placement: str
    memory: str
    cpu: str
    writes: str = "-"
    objects: str = "-"


def costs(scale: Scale) -> Iterator[Cost]:
    """Measure every placement."""
    added = on_a_cluster.added(scale.folder / "cluster", scale.of(on_a_cluster.ENVIRONMENTS))
    yield from _dedicated(scale.folder / "dedicated", added)
    yield from _pooled(scale, added["Pooled"])
    yield from _on_server(scale, added["Pooled"])
    yield embedded(scale)


def _dedicated(folder: Path, added: Mapping[str, on_a_cluster.Added]) -> Iterator[Cost]:
    """Running, and asleep: its process is gone, and a wake starts it again. The writes are those of falling asleep."""
    folder.mkdir()
    data, log = folder / "engine", folder / "log"
    dedicated.install(data, log)
    found = [dedicated.cost_of(data, log) for _ in range(STARTS)]
    memory, cpu = median(each.idle for each in found), median(each.cpu for each in found)
    running, asleep = added["Dedicated"], added[on_a_cluster.ASLEEP]
    objects = running.all_objects
    yield Cost("in a pod of its own", size_text(memory), _seconds(cpu), f"{running.all_writes:.1f}", f"{objects:.1f}")
    slept = f"{asleep.all_writes:.1f} more to fall asleep"
    yield Cost("asleep", "0", f"{_seconds(cpu)} to wake", slept, f"{objects + asleep.all_objects:.1f}")


def _pooled(scale: Scale, added: on_a_cluster.Added) -> Iterator[Cost]:
    count = scale.of(IN_A_POOL)
    cost = pooled.weigh(scale.folder / "pool", count)
    writes, objects = f"{added.all_writes:.1f}", f"{added.all_objects:.1f}"
    yield Cost("in a pool on a volume, at rest", size_text(cost.at_rest), _seconds(cost.made_cpu), writes, objects)
    whole = cost.at_rest + cost.open
    yield Cost("in a pool on a volume, open", size_text(whole), _seconds(cost.made_cpu + cost.opened_cpu), writes, objects)
    yield Cost("the pool itself, once", size_text(cost.empty), "-")


def _on_server(scale: Scale, added: on_a_cluster.Added) -> Iterator[Cost]:
    """The memory and the CPU time of one pod. The server has a database for each engine, and not one object more."""
    count = scale.of(IN_A_POOL)
    with running_server_of_pools() as server:
        cost = pooled.weigh(scale.folder / "on-server", count, server)
        (disk,) = server.ask(
            "SELECT sum(pg_database_size(datname)) FROM pg_database WHERE datname LIKE 'tenantry~_%%~_%%' ESCAPE '~'"
        )
    writes, objects = f"{added.all_writes:.1f}", f"{added.all_objects:.1f}"
    yield Cost("in a pool on PostgreSQL, at rest", size_text(cost.at_rest), _seconds(cost.made_cpu), writes, objects)
    whole = cost.at_rest + cost.open
    yield Cost("in a pool on PostgreSQL, open", size_text(whole), _seconds(cost.made_cpu + cost.opened_cpu), writes, objects)
    yield Cost("its database on the server", f"{size_text(int(disk) / count)} of disk", "-")


def embedded(scale: Scale) -> Cost:
    """With its objects and its reconciles: there is no other process."""
    few, many = (scale.of(count) for count in FLEETS)
    memory, cpu = {}, {}
    for count in (few, many):
        state = scale.folder / f"fleet-{count}"
        cpu[count] = fleet.apart("make", state, count)["cpu"]
        memory[count] = fleet.apart("start", state, count)["memory"]
    more = many - few
    each = (memory[many] - memory[few]) / more
    return Cost("embedded, with its objects", size_text(each), _seconds((cpu[many] - cpu[few]) / more), "0")


def table(lines: Iterator[Cost]) -> str:
    """As Markdown."""
    cells = [TITLES, ("---",) * len(TITLES), *lines]
    return "\n".join(f"| {' | '.join(each)} |" for each in cells)


def size_text(size: float) -> str:
    if size < NOISE:
        return f"< {NOISE >> 10} KiB"
    if size < 1 << 20:
        return f"{size / 1024:.0f} KiB"
    return f"{size / 2**20:.{0 if size >= 10 << 20 else 2}f} MiB"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cost", description="Print the cost of an environment.")
    parser.add_argument("--share", type=float, default=1.0, metavar="PART", help="of the full size, such as 0.1")
    asked = parser.parse_args()
    with on_disk() as folder:
        print(table(costs(Scale(folder, asked.share))))
