"""Failed sign-ins in the database that replicas of a pool share: cost, end and bound, and a database that is away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from starlette.exceptions import HTTPException
from structlog.testing import capture_logs

from tenantry.adapters.pools.server_urls import pool_key
from tenantry.adapters.pools.shared import failures, guesses, short_statements
from tenantry.adapters.pools.shared.catalog import CatalogRecord
from tenantry.adapters.pools.shared.failures import SharedCounts
from tenantry.adapters.pools.shared.guesses import GuessTable
from tenantry.model.verdicts import Halt, Unauthorized
from tenantry.rest.auth.failures import FORGOTTEN_S, FREE, ProcessCounts
from tenantry.rest.auth.throttle import Throttle
from tests.support.pool_servers import PoolServerKit, ReplicasInTime
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
ROWS = "SELECT count(*) FROM guesses"


class Table(GuessTable):
    """asked: the statements that sign-ins needed."""

    asked = 0

    @contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        self.asked += 1
        with super()._asking() as connection:
            yield connection


class Replica:
    """One of a pool. clock: its time, and the server's."""

    def __init__(self, url: str, clock: list[float]) -> None:
        self.table = Table(url, lambda: clock[0])
        self.counts = SharedCounts(self.table, ProcessCounts(lambda: clock[0]))
        self.throttle = Throttle(self.counts, pool_key(url, "sign-ins"))

    async def signs_in(self, right: bool, engine: str = "one", username: str = "ada", address: str = "192.0.2.1") -> int:
        try:
            async with self.throttle.attempt(engine, username, address):
                await asyncio.sleep(0)
                if not right:
                    raise Unauthorized("wrong username or password")
        except Unauthorized:
            return 401
        except HTTPException as refused:
            return refused.status_code
        return 200

    async def costs(self, right: bool, engine: str = "one", username: str = "ada") -> int:
        """The statements of one sign-in."""
        before = self.table.asked
        assert await self.signs_in(right, engine, username) == (200 if right else 401)
        return self.table.asked - before


class Pool(ReplicasInTime):
    """Two replicas, and the engines `one` and `two`."""

    def __init__(self, server: PoolServerKit) -> None:
        super().__init__(server)
        self.catalog.put([CatalogRecord(id_, b"{}", False) for id_ in ("one", "two")])
        self.a, self.b = (Replica(server.url, self.clock) for _ in range(2))

    async def refresh(self) -> None:
        for replica in (self.a, self.b):
            await replica.counts.refresh()

    def rows(self, where: str = "true") -> int:
        return int(self.server.rows(f"{ROWS} WHERE {where}")[0])


@pytest.fixture
async def pool(pool_server: PoolServerKit) -> AsyncIterator[Pool]:
    pool = Pool(pool_server)
    await pool.refresh()
    yield pool
    for replica in (pool.a, pool.b):
        await replica.counts.close()
    pool.catalog.close()


async def test_a_right_password_costs_no_statement_where_nothing_failed_and_one_where_others_failed(pool: Pool) -> None:
    assert await pool.a.costs(True) == 0
    await pool.a.signs_in(False, username="bob")
    await pool.refresh()
    for replica in (pool.a, pool.b):
        assert [await replica.costs(True), await replica.costs(True, engine="two")] == [1, 0]


async def test_of_attempts_at_once_after_a_wait_one_looks_at_the_password(pool: Pool) -> None:
    for _ in range(FREE):
        await pool.a.signs_in(False)
    await pool.refresh()
    pool.clock[0] += 1
    attempts = [replica.signs_in(False) for replica in (pool.a, pool.b) for _ in range(20)]
    assert sorted(await asyncio.gather(*attempts)) == [401] + [429] * 39


async def test_a_replica_that_has_not_heard_of_failures_lets_few_through_until_its_first_one(pool: Pool) -> None:
    for _ in range(FREE + 3):
        await pool.a.signs_in(False)
    assert [await pool.b.signs_in(False) for _ in range(3)] == [401, 429, 429]


async def test_what_others_counted_holds_back_without_an_attempt_after_the_next_look(pool: Pool) -> None:
    for _ in range(FREE):
        await pool.a.signs_in(False)
    pool.b.throttle.check("one", "ada", "192.0.2.1")
    await pool.refresh()
    with pytest.raises(HTTPException):
        pool.b.throttle.check("one", "ada", "192.0.2.1")


async def test_a_success_at_one_forgets_the_failures_of_both(pool: Pool) -> None:
    for replica in (pool.a, pool.b) * 2:
        await replica.signs_in(False)
    assert await pool.a.signs_in(True) == 200
    assert [await pool.b.signs_in(False) for _ in range(FREE)] == [401] * FREE


async def test_nobody_reads_names_or_addresses_in_the_database(pool: Pool) -> None:
    await pool.a.signs_in(False)
    with psycopg.connect(pool.server.url) as connection:
        held = connection.execute("SELECT who FROM guesses").fetchall()
    assert sorted(len(who) for (who,) in held) == [16, 16]
    keys = {pool_key(pool.server.url, purpose) for purpose in ("sign-ins", "something else")}
    assert len(keys) == 2 and not any(key.hex() in pool.server.url for key in keys)


async def test_rows_go_when_they_count_no_more_and_with_their_engine(pool: Pool) -> None:
    for engine in ("one", "two"):
        await pool.a.signs_in(False, engine)
    pool.catalog.remove("two")
    assert (pool.rows("engine = 'two'"), pool.rows("engine = 'one'")) == (0, 2)
    pool.a.table.sweep()
    assert pool.rows() == 2
    pool.clock[0] += FORGOTTEN_S + 1
    pool.b.table.sweep()
    await pool.refresh()
    assert (pool.rows(), pool.b.table.guessed) == (0, frozenset())


async def test_ever_other_usernames_from_ever_other_addresses_fill_no_table_and_push_out_no_neighbour(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "KEPT", 20)
    monkeypatch.setattr(guesses, "SPARE", 5)
    for _ in range(FREE):
        await pool.a.signs_in(False, "two")
    await pool.refresh()
    for number in range(100):
        replica = (pool.a, pool.b)[number % 2]
        assert await replica.signs_in(False, "one", f"user{number}", f"192.0.2.{number}") == 401
        assert pool.rows("engine = 'one'") <= 20 + 2 * 5
    assert await pool.b.signs_in(True, "two") == 429
    pool.a.table.sweep()
    assert (pool.rows("engine = 'one'"), pool.rows("engine = 'two'")) == (20, 2)


async def test_while_the_database_is_away_each_replica_counts_for_itself(pool: Pool) -> None:
    await pool.a.signs_in(False)
    with pool.server.away(), capture_logs() as logs:
        assert await pool.a.signs_in(True, username="bob") == 200
        guesses_at_a = [await pool.a.signs_in(False) for _ in range(FREE + 1)]
        assert [entry["event"] for entry in logs] == [
            "this replica counts failed sign-ins for itself: the pool's database does not answer"
        ]
        with pytest.raises(Halt):
            await pool.b.counts.refresh()
    assert guesses_at_a == [401] * (FREE - 1) + [429] * 2
    await pool.refresh()
    assert await pool.b.costs(False) > 0


async def test_a_database_that_does_not_answer_keeps_one_sign_in_waiting_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_statements, "ASK_S", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        replica = Replica(f"postgresql://pool:secret@127.0.0.1:{port}/pool?connect_timeout=2", [0.0])
        assert [await replica.signs_in(True), await replica.signs_in(True)] == [200, 200]
        assert replica.table.asked == 1
        assert [await replica.signs_in(False) for _ in range(FREE + 1)] == [401] * FREE + [429]
        await replica.counts.close()


async def test_a_replica_looks_again_and_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PAUSE_S", 0.01)
    monkeypatch.setattr(failures, "SWEEP_S", 0.0)
    work = asyncio.create_task(pool.b.counts.run())
    try:
        with pool.server.away():
            await pool.a.signs_in(False)
        await pool.a.counts.refresh()
        for _ in range(FREE):
            await pool.a.signs_in(False)
        await eventually(lambda: pool.b.counts.wait(pool.b.throttle._guesser("one", "ada", "192.0.2.1")) > 0)
        pool.clock[0] += FORGOTTEN_S + 1
        await eventually(lambda: pool.rows() == 0)
    finally:
        work.cancel()
