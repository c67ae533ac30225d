"""Writers of one SQLite database: a group of them in a thread, the others wait outside."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from tenantry.engine.database import Database, Locked
from tenantry.engine.opening.ownership import Ownership
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.sql.group_commit import MOST_WRITERS
from tenantry.engine.transactions import Transactions
from tenantry.rest.fairness.lanes import Lanes, Overloaded, Sharing
from tests.support.waiting import eventually

SHARING = Sharing(threads=4, of_tenant=4, of_lane=4, of_bulk=3, waiting=1000)


@pytest.fixture
async def transactions(tmp_path: Path) -> Transactions:
    owned = Ownership(tmp_path, "", PackageFolder(tmp_path))
    made = Transactions(Database(tmp_path / "a.db"), Lanes(SHARING, "t").lane("a", "1"), owned)
    await made.write(lambda connection: None)
    return made


class Standing:
    """Work that stands in its thread until it may go on."""

    def __init__(self) -> None:
        self.running = self.most = self.done = 0
        self.may_go = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, _: sa.Connection) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        assert self.may_go.wait(30)
        with self._lock:
            self.running -= 1
            self.done += 1


async def test_one_writes_and_the_threads_of_the_others_serve_readers(transactions: Transactions) -> None:
    standing = Standing()
    writers = [asyncio.ensure_future(transactions.serve(standing, 30, True)) for _ in range(20)]
    await eventually(lambda: standing.running == 1)
    assert await transactions.serve(lambda connection: "read", 5, False) == "read"
    standing.may_go.set()
    await asyncio.gather(*writers)
    assert (standing.most, standing.done) == (1, 20)


async def test_a_writer_that_has_no_turn_in_time_is_told_so(transactions: Transactions) -> None:
    standing = Standing()
    first = asyncio.ensure_future(transactions.serve(standing, 30, True))
    await eventually(lambda: standing.running == 1)
    with pytest.raises(Locked, match="other requests write"):
        await transactions.serve(lambda connection: None, 0.01, True)
    standing.may_go.set()
    await first


async def test_a_writer_that_leaves_gives_its_place_away(transactions: Transactions) -> None:
    standing = Standing()
    first, second, third = (asyncio.ensure_future(transactions.serve(standing, 30, True)) for _ in range(3))
    await eventually(lambda: standing.running == 1)
    second.cancel()
    await asyncio.wait((second,))
    standing.may_go.set()
    await asyncio.gather(first, third)
    assert standing.done == 2


async def test_no_more_writers_wait_than_may(transactions: Transactions) -> None:
    standing = Standing()
    writers = [asyncio.ensure_future(transactions.serve(standing, 30, True)) for _ in range(MOST_WRITERS)]
    await eventually(lambda: standing.running == 1)
    with pytest.raises(Overloaded):
        await transactions.serve(standing, 30, True)
    standing.may_go.set()
    await asyncio.gather(*writers)
