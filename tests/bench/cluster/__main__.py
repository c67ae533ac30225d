"""`make bench-cluster`: python -m tests.bench.cluster [p01 p06 ...] [--share PART] [--repetitions N] [--json FILE]."""

from __future__ import annotations

from tests.bench.cluster import editing, growing, moving, observed, pooled, shards, standing, starting
from tests.bench.command import command

if __name__ == "__main__":
    benchmarks = {
        "p01": starting.measure,
        "p04": editing.measure,
        "p06": standing.measure,
        "o7": observed.measure,
        "p22": pooled.measure,
        "h1": growing.measure,
        "h6": moving.measure,
        "h7": shards.measure,
    }
    command(benchmarks, prog="python -m tests.bench.cluster", repetitions=1)
