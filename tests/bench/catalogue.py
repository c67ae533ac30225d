"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.bench import from_git, logins, p14, p15, p16, p17, reads, start, transfers
from tests.bench.row import Row, Scale

BENCHMARKS: Mapping[str, Callable[[Scale], Sequence[Row]]] = {
    "p07": reads.p07,
    "p09": reads.p09,
    "p11": logins.measure,
    "p12": transfers.p12,
    "p13": transfers.p13,
    "p14": p14.measure,
    "p15": p15.measure,
    "p16": p16.measure,
    "git": from_git.measure,
    "p17": p17.measure,
    "p18": start.measure,
}
