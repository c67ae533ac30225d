"""P14: the install of an app with 100 tables on a new SQLite database, against the same DDL in one raw transaction."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tests.bench.apps import manifest, stored, tables, timed, timed_install, write_package
from tests.bench.row import Row, Scale, Took, interleaved, row, stopwatch

TABLES = 100
GATE = 5.0


def measure(scale: Scale) -> Sequence[Row]:
    """The first install of a package in a process, and that of one which another environment has already."""
    count = scale.of(TABLES)
    statements = _statements(scale.folder, count)
    reference = f"the same DDL ({len(statements)} statements), raw sqlite3, one transaction"
    work = f"install of an app with {count} tables on a new SQLite database"
    numbers = itertools.count()

    def raw() -> Took:
        return _raw(scale.folder / f"raw-{next(numbers)}.db", statements)

    fresh = _installs(scale.folder / "first", count, (f"app{number}" for number in itertools.count()))
    first = interleaved(lambda: next(fresh), raw, scale.repetitions)
    same = _installs(scale.folder / "again", count, itertools.repeat("again"))
    again = interleaved(lambda: next(same), raw, scale.repetitions)
    return (
        row("P14", f"{work}, the first of this package", reference, first, "lower", GATE),
        row("P14", f"{work}, as in another environment before", reference, again, "lower", None),
    )


def _installs(folder: Path, count: int, names: Iterator[str]) -> Iterator[Took]:
    """Each installs the next app on an engine of its own."""
    folder.mkdir()
    for number, app in enumerate(names):
        package = write_package(folder / f"{number}.tapp", manifest(app, tables(count)))
        yield timed(_install(folder / str(number), package, app))


async def _install(data: Path, package: Path, app: str) -> Took:
    engine = await stored(data, package)
    took = await timed_install(engine, app, "1.0.0")
    await engine.close()
    return took


def _statements(folder: Path, count: int) -> list[str]:
    """The DDL that an install comes to, as the database recorded it."""
    next(_installs(folder / "statements", count, iter(["statements"])))
    with closing(sqlite3.connect(folder / "statements" / "0" / "engine.db")) as database:
        found = database.execute(
            "SELECT sql FROM sqlite_master WHERE name LIKE '%statements!_!_%' ESCAPE '!' AND sql IS NOT NULL"
        )
        return [str(sql) for (sql,) in found]


def _raw(path: Path, statements: Sequence[str]) -> Took:
    with stopwatch() as took, closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN IMMEDIATE")
        for statement in statements:
            database.execute(statement)
        database.execute("COMMIT")
    return took
