"""`make bench-cluster`: python -m tests.bench.cluster [p01 p06] [--share PART] [--repetitions N] [--json FILE] [--markdown]."""

from __future__ import annotations

from tests.bench.cluster import standing, starting
from tests.bench.command import command

if __name__ == "__main__":
    benchmarks = {"p01": starting.measure, "p06": standing.measure}
    command(benchmarks, prog="python -m tests.bench.cluster", repetitions=1)
