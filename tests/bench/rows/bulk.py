"""P30: many rows in one request, against parsing the same lines and one executemany, both in one durable transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import httpx
import orjson

from tests.bench.row import Row, Scale, Times, Took, interleaved, row, slowest, stopwatch, told
from tests.bench.rows.server import Server
from tests.bench.rows.subjects import tenantry, title

LINES = 100_000
GATE = 4.0


def p30(scale: Scale) -> Sequence[Row]:
    """100,000 rows as NDJSON."""
    count = scale.of(LINES)
    lines = b"".join([orjson.dumps({"title": title(number), "amount": number}) + b"\n" for number in range(count)])
    file = scale.folder / "P30-raw.db"
    with tenantry(scale.folder / "P30-tenantry") as server, httpx.Client(headers=dict(server.headers), timeout=600) as client:
        times = interleaved(
            lambda: _sent(client, server, lines, count), lambda: _inserted(file, lines), max(1, scale.repetitions // 2)
        )
        return (row_of(times, count, server.memory),)


def row_of(times: Times, count: int, memory: int) -> Row:
    """The row of measured times. memory: bytes of the server, which keeps the most that it took."""
    p99 = f"{told(slowest(times.subject))} of {told(slowest(times.reference))}"
    work, reference = f"{count:,} rows in one NDJSON request", "the same lines parsed, one executemany, one transaction"
    return row("P30", work, reference, times, "lower", GATE, p99=p99, memory=f"{memory >> 20} MiB")


def _sent(client: httpx.Client, server: Server, lines: bytes, count: int) -> Took:
    headers = {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}
    before = server.cpu_s()
    with stopwatch() as took:
        answer = client.post(f"{server.base}/added", content=lines, headers=headers)
    assert answer.status_code == 201, answer.text
    return Took(took.wall, server.cpu_s() - before)


def _inserted(file: Path, lines: bytes) -> Took:
    connection = sqlite3.connect(file, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS added (id INTEGER PRIMARY KEY AUTOINCREMENT, title VARCHAR(120) NOT NULL, amount INTEGER)"
    )
    with stopwatch() as took:
        rows = [(each["title"], each["amount"]) for each in map(orjson.loads, lines.splitlines())]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO added (title, amount) VALUES (?, ?)", rows)
        connection.execute("COMMIT")
    connection.close()
    return took
