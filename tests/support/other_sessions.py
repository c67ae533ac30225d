"""Sessions of other programs on an engine's PostgreSQL database, and what they do beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tenantry.engine.service import Engine
from tests.unit.engine.archives import write_package
from tests.unit.engine.schemas import portrait

PATIENCE_S = 60
WRITE = "INSERT INTO crm__people (id, name) VALUES ((SELECT count(*) FROM crm__people), 'Ada')"
READ = "SELECT count(*) FROM crm__people"


@contextmanager
def session(url: str, **settings: Any) -> Iterator[psycopg.Connection[Any]]:
    """Another program's connection to the database."""
    with psycopg.connect(url.replace("+psycopg", ""), application_name="reports", **settings) as connection:
        yield connection


@asynccontextmanager
async def engine_with_versions(url: str, folder: Path, versions: Mapping[str, Sequence[Any]]) -> AsyncIterator[Engine]:
    """An engine with these versions of crm, each with its tables; version 1 is installed."""
    engine = await Engine.open(folder / "engine", database_url=url)
    for version, tables in versions.items():
        name = version.replace(" ", "-")
        await engine.upload(write_package(folder / f"{name}.tapp", version=name, tables=[*tables]))
    await engine.install("crm", "1")
    yield engine
    await engine.close()


@asynccontextmanager
async def at_work(url: str, *statements: str) -> AsyncIterator[list[float]]:
    """Each statement runs again and again beside the block. Yields the seconds that each run took."""
    took: list[float] = []
    over = asyncio.Event()

    def work(statement: str) -> None:
        with session(url, autocommit=True) as connection:
            while not over.is_set():
                began = time.monotonic()
                connection.execute(statement.encode())
                took.append(time.monotonic() - began)

    workers = [asyncio.ensure_future(asyncio.to_thread(work, statement)) for statement in statements]
    try:
        yield took
    finally:
        over.set()
        await asyncio.gather(*workers)


def portrait_of(engine: Engine) -> list[str]:
    """Everything that is in the engine's database."""
    with engine._database.reading() as connection:
        return portrait(connection)
