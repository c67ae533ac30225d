"""The longest time that others wait for a table while an install changes it on PostgreSQL, against the bare statement."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tenantry.engine.service import Engine
from tests.bench.apps import manifest, timed, write_package
from tests.bench.row import Row, Scale, Took, interleaved, row, told
from tests.scenario.postgres import running

ROWS = 1_000_000
WRITE = b"UPDATE shop__orders SET note = 'changed' WHERE id = 1"
READ = b"SELECT note FROM shop__orders WHERE id = 1"
Table = dict[str, Any]


def _orders(code: int = 40, **more: Any) -> Table:
    columns = [
        {"name": "id", "type": "integer", "generated": True},
        {"name": "code", "type": "string", "length": code, "nullable": False},
        {"name": "amount", "type": "integer", "nullable": False},
        {"name": "note", "type": "text"},
    ]
    return {"name": "orders", "primaryKey": ["id"], "columns": columns, **more}


def _bigger(table: Table) -> Table:
    columns = [{**each, "type": "bigint"} if each["name"] == "amount" else each for each in table["columns"]]
    return {**table, "columns": columns}


_ALTER = "ALTER TABLE shop__orders"
CASES: Mapping[str, tuple[Table, str]] = {
    "adds an index": (_orders(indexes=[{"columns": ["amount"]}]), "CREATE INDEX raw ON shop__orders (amount)"),
    "adds a foreign key": (
        _orders(foreignKeys=[{"columns": ["amount"], "references": "amounts", "to": ["id"]}]),
        f"{_ALTER} ADD FOREIGN KEY (amount) REFERENCES shop__amounts (id)",
    ),
    "adds a check": (_orders(checks=[{"name": "sign", "expression": "amount >= 0"}]), f"{_ALTER} ADD CHECK (amount >= 0)"),
    "adds a unique key": (_orders(unique=[["code"]]), f"{_ALTER} ADD UNIQUE (code)"),
    "widens a text": (_orders(code=80), f"{_ALTER} ALTER code TYPE varchar(80)"),
    "widens an integer": (_bigger(_orders()), f"{_ALTER} ALTER amount TYPE bigint"),
}
AMOUNTS: Table = {"name": "amounts", "primaryKey": ["id"], "columns": [{"name": "id", "type": "integer"}]}


@dataclass
class Waits:
    """The longest times of single statements of others, by what they do."""

    longest: dict[str, float] = field(default_factory=dict)
    reads: list[float] = field(default_factory=list)


def measure(scale: Scale) -> Sequence[Row]:
    count = scale.of(ROWS)
    with running() as server:
        timed(_filled(scale.folder, f"postgresql+psycopg://{server}/", count))
        chosen = [(number, name) for number, name in enumerate(CASES, 1) if not scale.only or name in scale.only]
        return [_row(scale, server, number, name, count) for number, name in chosen]


def _row(scale: Scale, server: str, number: int, name: str, count: int) -> Row:
    waits = Waits()

    def subject() -> Took:
        with _copy(server):
            return timed(_installed(scale.folder / "engine", f"postgresql+psycopg://{server}/copy", f"{number}", waits))

    def reference() -> Took:
        with _copy(server), psycopg.connect(f"postgresql://{server}/copy", autocommit=True) as connection:
            began = time.perf_counter()
            connection.execute(CASES[name][1].encode())
            return Took(time.perf_counter() - began)

    times = interleaved(subject, reference, scale.repetitions)
    work = f"longest wait of a writer while an install {name}, {count:,} rows"
    reader = told(statistics.median(waits.reads[1:]))
    return row("locks", work, "time of the bare statement", times, "lower", None, reader=reader)


async def _filled(folder: Path, server: str, count: int) -> None:
    """The database `template` with that many rows, and an engine's folder with all versions."""
    with psycopg.connect(f"{server.replace('+psycopg', '')}postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE template")
    engine = await Engine.open(folder / "engine", database_url=f"{server}template")
    versions = [_orders(), *(table for table, _ in CASES.values())]
    for number, table in enumerate(versions):
        path = write_package(folder / f"{number}.tapp", manifest("shop", [table, AMOUNTS], f"{number}"))
        await engine.upload(path)
    await engine.install("shop", "0")
    await engine.close()
    with psycopg.connect(f"{server.replace('+psycopg', '')}template") as connection:
        connection.execute("INSERT INTO shop__amounts SELECT i FROM generate_series(0, 999) i")
        rows = f"SELECT 'order-' || i, i % 1000, 'by telephone' FROM generate_series(1, {count}) i"
        connection.execute(f"INSERT INTO shop__orders (code, amount, note) {rows}".encode())
    with psycopg.connect(f"{server.replace('+psycopg', '')}template", autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


@contextmanager
def _copy(server: str) -> Iterator[None]:
    with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE copy TEMPLATE template")
        try:
            yield
        finally:
            connection.execute("DROP DATABASE copy WITH (FORCE)")


async def _installed(folder: Path, url: str, version: str, waits: Waits) -> Took:
    engine = await Engine.open(folder, database_url=url)
    with _others(url.replace("+psycopg", ""), waits):
        await engine.install("shop", version)
    await engine.close()
    waits.reads.append(waits.longest["read"])
    return Took(waits.longest["write"])


@contextmanager
def _others(url: str, waits: Waits) -> Iterator[None]:
    over, begun = threading.Event(), threading.Barrier(3)

    def work(name: str, statement: bytes) -> None:
        longest = 0.0
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)
            begun.wait(30)
            while not over.wait(0.002):
                began = time.perf_counter()
                connection.execute(statement)
                longest = max(longest, time.perf_counter() - began)
        waits.longest[name] = longest

    threads = [threading.Thread(target=work, args=given) for given in (("write", WRITE), ("read", READ))]
    for thread in threads:
        thread.start()
    begun.wait(30)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
