"""`make bench`: python -m tests.bench [p14 p16 ...] [--json FILE] [--markdown] [--repetitions N] [--share PART]."""

from __future__ import annotations

from tests.bench.catalogue import BENCHMARKS
from tests.bench.command import command

if __name__ == "__main__":
    command(BENCHMARKS, prog="python -m tests.bench", repetitions=7)
