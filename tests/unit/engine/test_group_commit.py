"""Writers that commit together: each is all-or-nothing, has its own error only, and is answered after the commit."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tenantry.engine.database import Database, Locked
from tenantry.engine.sql import group_commit
from tenantry.engine.sql.group_commit import MOST_TOGETHER, GroupCommit
from tenantry.model.verdicts import Halt, Invalid
from tenantry.rest.fairness.lanes import Lanes, Sharing
from tests.support.waiting import eventually

SHARING = Sharing(threads=4, of_tenant=4, of_lane=4, of_bulk=3, waiting=1000)
FOREVER = "INSERT INTO t SELECT i FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n)"
LARGE = "INSERT INTO big SELECT zeroblob(1 << 20) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8))"
PATIENCE_S = 30


class World:
    """A database, its writers, and the number of commits that it has made."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "a.db"
        self.database = Database(self.file)
        with self.database.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE t (n INTEGER UNIQUE)")
            connection.exec_driver_sql("CREATE TABLE big (b BLOB)")
            connection.exec_driver_sql("CREATE TABLE child (n INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
            connection.exec_driver_sql("CREATE TABLE parent (n INTEGER PRIMARY KEY)")
        self.groups = GroupCommit(self.database, Lanes(SHARING, "t").lane("a", "1"))
        self.commits = 0

    def write(self, statement: str, seconds: float = PATIENCE_S, *, alone: bool = False) -> asyncio.Future[Any]:
        def work(connection: sa.Connection) -> str:
            connection.exec_driver_sql(statement)
            return statement

        return asyncio.ensure_future(self.groups.write(work, seconds, alone=alone))

    def numbers(self, order: str = "n") -> list[int]:
        """The values that another process reads. order: by `rowid`, as they were written."""
        with closing(sqlite3.connect(self.file)) as other:
            return [row[0] for row in other.execute(f"SELECT n FROM t ORDER BY {order}")]

    def limit_size(self, pages: int) -> None:
        """From now on, the disk is full once the database has so many pages."""

        def limit(connection: Any, _: object) -> None:
            connection.execute(f"PRAGMA max_page_count={pages}")

        with self.database.reading():
            pass
        assert self.database._engine is not None
        sa.event.listen(self.database._engine, "connect", limit)
        self.database._engine.pool.dispose()
        self.database._engine.pool = self.database._engine.pool.recreate()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """The writers that the block starts are one group: they wait while another one holds the thread."""
        began, may_go = threading.Event(), threading.Event()

        def work(_: sa.Connection) -> None:
            began.set()
            assert may_go.wait(PATIENCE_S)

        first = asyncio.ensure_future(self.groups.write(work, PATIENCE_S))
        await asyncio.to_thread(began.wait, PATIENCE_S)
        try:
            yield
            await asyncio.sleep(0)
        finally:
            may_go.set()
            await first


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path)
    real = world.database.writing

    def counted() -> Any:
        world.commits += 1
        return real()

    monkeypatch.setattr(world.database, "writing", counted)
    # On a busy machine a group would end early.
    monkeypatch.setattr(group_commit, "TOGETHER_S", PATIENCE_S)
    return world


async def test_writers_that_came_during_a_commit_commit_together(world: World) -> None:
    async with world.together():
        writers = [world.write(f"INSERT INTO t VALUES ({n})") for n in range(MOST_TOGETHER)]
    await asyncio.gather(*writers)
    assert world.numbers() == list(range(MOST_TOGETHER))
    assert world.commits == 2


async def test_a_writer_that_is_alone_does_not_wait_for_others(world: World) -> None:
    for number in range(3):
        await world.write(f"INSERT INTO t VALUES ({number})")
    assert world.commits == 3


async def test_nobody_is_answered_before_the_commit(world: World) -> None:
    seen: list[list[int]] = []
    writers: list[asyncio.Future[Any]] = []

    def look() -> None:
        seen.append(world.numbers())

    async with world.together():
        for number in range(5):
            writers.append(world.write(f"INSERT INTO t VALUES ({number})"))
            writers[-1].add_done_callback(lambda _: look())
    await asyncio.gather(*writers)
    assert seen == [list(range(5))] * 5


async def test_each_has_its_own_error_and_nothing_of_it_stays(world: World) -> None:
    async with world.together():
        good = [world.write("INSERT INTO t VALUES (1)"), world.write("INSERT INTO t VALUES (2)")]
        bad = world.write("INSERT INTO t VALUES (7), (1)")
        last = world.write("INSERT INTO t VALUES (3)")
    assert await asyncio.gather(*good, last)
    with pytest.raises(Invalid, match="UNIQUE"):
        await bad
    assert world.numbers() == [1, 2, 3]
    assert world.commits == 2


async def test_a_constraint_that_is_checked_at_the_commit_is_the_error_of_whoever_broke_it(world: World) -> None:
    async with world.together():
        first = world.write("INSERT INTO t VALUES (1)")
        broken = world.write("INSERT INTO child VALUES (5)")
        last = world.write("INSERT INTO t VALUES (2)")
    await asyncio.gather(first, last)
    with pytest.raises(Invalid, match="FOREIGN KEY"):
        await broken
    assert world.numbers() == [1, 2]


async def test_a_statement_that_is_interrupted_takes_nothing_of_the_others_with_it(world: World) -> None:
    async with world.together():
        first = world.write("INSERT INTO t VALUES (-1)")
        late = world.write(FOREVER, 0.3)
        last = world.write("INSERT INTO t VALUES (-2)")
    await asyncio.gather(first, last)
    with pytest.raises(Invalid, match="takes too long"):
        await late
    assert world.numbers() == [-2, -1]


async def test_a_client_that_leaves_takes_nothing_of_the_others_with_it(world: World) -> None:
    began = threading.Event()

    def work(connection: sa.Connection) -> None:
        began.set()
        connection.exec_driver_sql(FOREVER)

    async with world.together():
        first = world.write("INSERT INTO t VALUES (-1)")
        gone = asyncio.ensure_future(world.groups.write(work, PATIENCE_S))
        waiting = world.write("INSERT INTO t VALUES (-2)")
        last = world.write("INSERT INTO t VALUES (-3)")
    await asyncio.to_thread(began.wait, PATIENCE_S)
    gone.cancel()
    waiting.cancel()
    await asyncio.wait((gone, waiting))
    await asyncio.gather(first, last)
    assert world.numbers() == [-3, -1]


async def test_on_a_full_disk_each_is_refused_that_has_no_room(world: World) -> None:
    world.limit_size(40)
    async with world.together():
        first = world.write("INSERT INTO t VALUES (1)")
        large = [world.write(LARGE) for _ in range(3)]
        last = world.write("INSERT INTO t VALUES (2)")
    await asyncio.gather(first, last)
    for each in large:
        with pytest.raises(Halt, match="the disk of the database cannot be written"):
            await each
    assert world.numbers() == [1, 2]
    with closing(sqlite3.connect(world.file)) as other:
        assert other.execute("SELECT count(*) FROM big").fetchone() == (0,)


async def test_a_commit_that_fails_is_tried_for_each_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = world.database.writing, [sqlite3.OperationalError("disk I/O error")]

    @contextmanager
    def writing() -> Any:
        with real() as connection:
            yield connection
            if world.commits == 2 and failures:
                raise failures.pop()

    monkeypatch.setattr(world.database, "writing", writing)
    async with world.together():
        writers = [world.write(f"INSERT INTO t VALUES ({n})") for n in range(3)]
    await asyncio.gather(*writers)
    assert world.numbers() == [0, 1, 2]
    assert world.commits == 5


async def test_a_lock_of_another_process_is_waited_for_by_all(world: World) -> None:
    with closing(sqlite3.connect(world.file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writers = [world.write(f"INSERT INTO t VALUES ({n})") for n in range(5)]
        late = world.write("INSERT INTO t VALUES (9)", 0.3)
        with pytest.raises(Locked, match="database is locked"):
            await late
        other.execute("ROLLBACK")
    await asyncio.gather(*writers)
    assert world.numbers() == [0, 1, 2, 3, 4]


async def test_large_work_has_a_commit_of_its_own(world: World) -> None:
    async with world.together():
        large = (False, False, True, False)
        writers = [world.write(f"INSERT INTO t VALUES ({n})", alone=alone) for n, alone in enumerate(large)]
    await asyncio.gather(*writers)
    assert world.numbers("rowid") == [0, 1, 2, 3]
    assert world.commits == 4


async def test_a_group_that_takes_long_commits_what_it_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "TOGETHER_S", 0.0)
    async with world.together():
        writers = [world.write(f"INSERT INTO t VALUES ({n})") for n in range(4)]
    await asyncio.gather(*writers)
    assert world.numbers() == [0, 1, 2, 3]
    assert world.commits > 2


async def test_one_after_the_other_of_many_clients_all_end(world: World) -> None:
    async def client(number: int) -> None:
        for turn in range(20):
            with suppress(Invalid):  # another client was first
                await world.write(f"INSERT INTO t VALUES ({100 * (number % 4) + turn})")

    await asyncio.gather(*(client(number) for number in range(8)))
    assert world.numbers() == sorted(100 * number + turn for number in range(4) for turn in range(20))
    await eventually(lambda: not world.groups._led)


async def test_writers_of_one_commit_go_on_in_different_rounds_of_the_loop(world: World) -> None:
    rounds, went_on = 0, list[int]()

    def count() -> None:
        nonlocal rounds
        rounds += 1
        asyncio.get_running_loop().call_soon(count)

    async with world.together():
        writers = [world.write(f"INSERT INTO t VALUES ({n})") for n in range(10)]
        for writer in writers:
            writer.add_done_callback(lambda _: went_on.append(rounds))
    count()
    await asyncio.gather(*writers)
    assert len(set(went_on)) == len(writers)
