"""A statement ends when its caller leaves, whenever that is: before it begins, just then, or after."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from tenantry.engine.database import Database
from tenantry.engine.transactions import Transactions
from tenantry.rest.fairness.lanes import Lanes, Sharing
from tests.scenario.postgres import database_url
from tests.support.endless import forever
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
TIMES = 200
SEED = 20261127
AT_ONCE = 4
PATIENCE_S = 15.0


class Moment(NamedTuple):
    """Seconds from the begin of the transaction to that of its statement, and until the caller leaves."""

    begins: float
    leaves: float


def schedule() -> list[Moment]:
    random = Random(SEED)
    moments = []
    for _ in range(TIMES):
        begins = random.choice((0.0, 0.001, 0.02, 0.04))
        distance = random.choice((0.0, random.uniform(-0.002, 0.002), random.uniform(-0.04, 0.04)))
        moments.append(Moment(begins, max(0.0, begins + distance)))
    return moments


@pytest.fixture(params=["sqlite", "postgresql"])
async def transactions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Transactions]:
    url = None if request.param == "sqlite" else database_url(request.getfixturevalue("server"))
    database = Database(tmp_path / "engine.db", url)
    ownership: Any = None
    yield Transactions(database, Lanes(Sharing(8, 8, 8, 8), "leaving").lane("a", "1"), ownership)
    database.close()


async def leave(transactions: Transactions, moment: Moment) -> bool:
    """Return True if the statement ended soon after its caller had left."""
    loop, began, ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def work(connection: sa.Connection) -> None:
        loop.call_soon_threadsafe(began.set)
        try:
            time.sleep(moment.begins)
            forever(connection)
        finally:
            loop.call_soon_threadsafe(ended.set)

    call = asyncio.ensure_future(transactions.serve(work, 2 * PATIENCE_S, write=False))
    await began.wait()
    await asyncio.sleep(moment.leaves)
    call.cancel()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()
    except TimeoutError:
        return False
    return True


def short(connection: sa.Connection) -> int:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_sleep(0.005)")
    return int(connection.exec_driver_sql("SELECT 1").scalar_one())


async def test_a_statement_ends_whenever_its_caller_leaves_and_no_later_one_does(transactions: Transactions) -> None:
    turns = asyncio.Semaphore(AT_ONCE)
    lost: list[Moment] = []

    async def one(moment: Moment) -> None:
        async with turns:
            if lost:
                return
            if not await leave(transactions, moment):
                lost.append(moment)
            assert await transactions.serve(short, PATIENCE_S, write=False) == 1

    await asyncio.gather(*map(one, schedule()))
    assert not lost, f"{lost}: the statement went on without its caller"
    await eventually(lambda: not any(thread.name == "cancel" for thread in threading.enumerate()))
