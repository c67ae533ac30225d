"""P32: the time until a thousand listeners have a change, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median

import psycopg

from tests.bench.row import Row, Scale, told
from tests.bench.rows.server import Server
from tests.bench.rows.subjects import tenantry
from tests.scenario.postgres import running

LISTENERS = 1000
CHANGES_S = 100
SECONDS = 10.0
LIMIT_S = 0.25


def p32(scale: Scale) -> Sequence[Row]:
    """Both databases, one after the other."""
    with tenantry(scale.folder / "P32-sqlite") as server:
        first = _row(scale, server, "SQLite")
    with running() as address:
        with psycopg.connect(f"postgresql://{address}/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE listened TEMPLATE template0 ENCODING 'UTF8'")
        with tenantry(scale.folder / "P32-postgresql", f"postgresql://{address}/listened") as server:
            return first, _row(scale, server, "PostgreSQL")


def _row(scale: Scale, server: Server, database: str) -> Row:
    listeners = scale.of(LISTENERS)
    asked = {
        "base": server.base,
        "authorization": server.headers["Authorization"],
        "table": "added",
        "listeners": listeners,
        "rate": CHANGES_S,
        "seconds": max(1.0, SECONDS * scale.share),
    }
    found = []
    warms_up = scale.repetitions > 1
    for turn in range(max(1, scale.repetitions // 2) + warms_up):
        before = server.cpu_s()
        command = [sys.executable, "-m", "tests.bench.rows.listeners"]
        done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        if turn >= warms_up:
            found.append(json.loads(done.stdout) | {"cpu": server.cpu_s() - before})
    return row_of(found, listeners, database, server.memory)


def row_of(found: Sequence[Mapping[str, float]], listeners: int, database: str, memory: int) -> Row:
    """The row of what the clients have printed, with the CPU seconds beside it. memory: bytes of the server."""
    ratios = sorted(each["p99"] / LIMIT_S for each in found)
    p99 = median(each["p99"] for each in found)
    lost = round(sum(each["expected"] - each["delivered"] for each in found))
    beside = {
        "p99": told(p99),
        "p50": told(median(each["p50"] for each in found)),
        "longest": told(max(each["longest"] for each in found)),
        "changes": f"{median(each['rate'] for each in found):.0f}/s",
        "cpu": told(median(each["cpu"] for each in found)),
        "memory": f"{memory >> 20} MiB",
        "lost": str(lost),
    }
    work = f"p99 of delivery: {listeners:,} listeners of one table, {CHANGES_S} changes/s, {database}"
    figures = (told(p99), told(LIMIT_S))
    return Row("P32", work, told(LIMIT_S), p99 / LIMIT_S, (ratios[0], ratios[-1]), "lower", 1.0, figures, beside, held=not lost)
