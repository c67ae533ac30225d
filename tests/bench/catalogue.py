"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.bench import (
    browser,
    commands,
    crowded,
    dedicated,
    fairness,
    fleet,
    from_git,
    handles,
    live,
    locks,
    logins,
    observed,
    p14,
    p15,
    p16,
    p17,
    pages,
    reads,
    scrapes,
    sleeping,
    start,
    tracing,
    transfers,
)
from tests.bench.row import Row, Scale
from tests.bench.rows import bulk, listening
from tests.bench.rows import measure as rows

BENCHMARKS: Mapping[str, Callable[[Scale], Sequence[Row]]] = {
    "p07": reads.p07,
    "p08": reads.p08,
    "p09": reads.p09,
    "p11": logins.measure,
    "p12": transfers.p12,
    "p13": transfers.p13,
    "p14": p14.measure,
    "p15": p15.measure,
    "locks": locks.measure,
    "p16": p16.measure,
    "git": from_git.measure,
    "o7": observed.measure,
    "o2": scrapes.measure,
    "p17": p17.measure,
    "p18": start.measure,
    "p19": handles.measure,
    "p20": sleeping.measure,
    "fleet": fleet.measure,
    "start": commands.measure,
    "h0": dedicated.measure,
    "h2": crowded.measure,
    "h2-postgresql": crowded.measure_on_server,
    "p24": pages.measure,
    "p24-chromium": browser.measure,
    "p24-live": live.measure,
    "p25": fairness.measure,
    "p25-apart": fairness.measure_apart,
    "p27": rows.p27,
    "p28": rows.p28,
    "p29": rows.p29,
    "p30": bulk.p30,
    "p31": rows.p31,
    "p32": listening.p32,
    "o7-traces": tracing.measure,
}
