"""`make bench-node`: python -m tests.bench.node [h4] [--share PART] [--repetitions N] [--json FILE]."""

from __future__ import annotations

from tests.bench.command import command
from tests.bench.node import waking

if __name__ == "__main__":
    command({"h4": waking.measure}, prog="python -m tests.bench.node", repetitions=7)
