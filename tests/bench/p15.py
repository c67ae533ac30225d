"""P15: an install that changes nothing, against a reflection; one that rebuilds a large table, against the raw SQL."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.bench.apps import manifest, stored, tables, timed, timed_install, write_package
from tests.bench.row import Row, Scale, Took, interleaved, row, stopwatch

TABLES = 200
ROWS = 1_000_000


def measure(scale: Scale) -> Sequence[Row]:
    return (_unchanged(scale), _rebuilt(scale))


def _unchanged(scale: Scale) -> Row:
    count, folder = scale.of(TABLES), scale.folder / "unchanged"
    folder.mkdir()
    numbers = itertools.count()

    async def install() -> Took:
        app = f"app{next(numbers)}"
        versions = ("1.0.0", "1.0.1")
        packages = [write_package(folder / f"{app}-{v}.tapp", manifest(app, tables(count), v)) for v in versions]
        engine = await stored(folder / app, *packages)
        await engine.install(app, "1.0.0")
        took = await timed_install(engine, app, "1.0.1")
        await engine.close()
        return took

    timed(install())
    times = interleaved(lambda: timed(install()), lambda: _reflect(folder / "app0" / "engine.db"), scale.repetitions)
    return row("P15", f"install that changes nothing, {count} tables", "SQLAlchemy's reflection", times, "lower", 3.0)


def _reflect(database: Path) -> Took:
    engine = sa.create_engine(f"sqlite:///{database}")
    with stopwatch() as took:
        sa.MetaData().reflect(engine)
    engine.dispose()
    return took


def _rebuilt(scale: Scale) -> Row:
    count, folder = scale.of(ROWS), scale.folder / "rebuilt"
    folder.mkdir()
    timed(_filled(folder, count))
    copies = itertools.count()

    def subject() -> Took:
        data = folder / f"copy-{next(copies)}"
        shutil.copytree(folder / "template", data)
        took = timed(_widen(data))
        shutil.rmtree(data)
        return took

    def reference() -> Took:
        data = folder / f"raw-{next(copies)}.db"
        shutil.copy(folder / "template" / "engine.db", data)
        took = _raw(data)
        data.unlink()
        return took

    times = interleaved(subject, reference, scale.repetitions)
    work = f"install that widens a column: rebuilds a table of {count:,} rows"
    return row("P15", work, "the raw SQL: new table, copy, drop, rename, index", times, "lower", 1.5)


def _orders(length: int) -> list[dict[str, Any]]:
    columns = [
        {"name": "id", "type": "integer", "generated": True},
        {"name": "code", "type": "string", "length": length, "nullable": False},
        {"name": "amount", "type": "integer", "nullable": False},
        {"name": "note", "type": "text"},
    ]
    return [{"name": "orders", "primaryKey": ["id"], "columns": columns, "indexes": [{"columns": ["amount"]}]}]


async def _filled(folder: Path, count: int) -> None:
    """An engine with that many rows, and the next version stored."""
    versions = {"1.0.0": 40, "1.1.0": 80}
    packages = [write_package(folder / f"{v}.tapp", manifest("shop", _orders(size), v)) for v, size in versions.items()]
    engine = await stored(folder / "template", *packages)
    await engine.install("shop", "1.0.0")
    await engine.close()
    with closing(sqlite3.connect(folder / "template" / "engine.db")) as database, database:
        database.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO shop__orders (code, amount, note) SELECT 'order-' || i, i % 1000, 'as ordered by telephone' FROM n",
            (count,),
        )


async def _widen(data: Path) -> Took:
    engine = await stored(data)
    took = await timed_install(engine, "shop", "1.1.0")
    await engine.close()
    return took


def _raw(path: Path) -> Took:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        (table,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'shop__orders'").fetchone()
        (index,) = database.execute("SELECT sql FROM sqlite_master WHERE tbl_name = 'shop__orders' AND type = 'index'").fetchone()
        with stopwatch() as took:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA foreign_keys = OFF")
            database.execute("BEGIN IMMEDIATE")
            database.execute(table.replace("shop__orders", "fresh", 1).replace("VARCHAR(40)", "VARCHAR(80)"))
            database.execute("INSERT INTO fresh SELECT * FROM shop__orders")
            database.execute("DROP TABLE shop__orders")
            database.execute("ALTER TABLE fresh RENAME TO shop__orders")
            database.execute(index)
            database.execute("COMMIT")
    return took
