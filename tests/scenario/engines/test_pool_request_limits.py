"""Limits of requests over the replicas of a pool on a server: the table that they share, and a database that is away."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from tenantry.adapters.pools.client import Pools
from tenantry.adapters.pools.shared import request_rates, short_statements
from tenantry.adapters.pools.shared.asked_rates import COUNTS_S, LIVES_S, AskedRates, OtherReplicas
from tenantry.adapters.pools.shared.buckets import SharedBuckets
from tenantry.adapters.pools.shared.request_rates import HOLDS_S, PAUSE_S, REST_S, SharedRates
from tests.support.pool_processes import TwoProcesses
from tests.support.pool_servers import PoolServerKit, ReplicasInTime
from tests.support.pools import HOST, OTHER_SPEC, POOL, REF, SPEC, PoolKit, pool_of, sent
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
OTHER_HOST = "dev--globex.apps.example.com"


class Table(AskedRates):
    """asked: the statements that were needed."""

    asked = 0

    def exchange(self, asked: Mapping[str, float]) -> OtherReplicas:
        self.asked += 1
        return super().exchange(asked)


class Replica:
    """One of a pool. clock: its time."""

    def __init__(self, url: str, clock: list[float]) -> None:
        self.table = Table(url)
        self.rates = SharedRates(self.table, SharedBuckets(lambda: clock[0]))

    def admits(self, asked: int, engine: str = "one", limit: int = 60) -> int:
        return sum(self.rates.take(engine, limit) == 0 for _ in range(asked))


class Pool(ReplicasInTime):
    """Three replicas."""

    def __init__(self, server: PoolServerKit) -> None:
        super().__init__(server)
        self.all = [Replica(server.url, self.clock) for _ in range(3)]

    async def second(self, *asked: int, engine: str = "one", limit: int = 60) -> list[int]:
        """Ask each replica so often, and return what it admitted. Then a second passes."""
        admitted = [each.admits(number, engine, limit) for each, number in zip(self.all, asked, strict=False)]
        self.clock[0] += 1
        for each in self.all:
            await each.rates.refresh()
        return admitted

    async def settled(self, *asked: int, engine: str = "one", limit: int = 60) -> list[int]:
        """The same, after all have heard of it."""
        for _ in range(8):
            await self.second(*asked, engine=engine, limit=limit)
        return await self.second(*asked, engine=engine, limit=limit)


@pytest.fixture
async def pool(pool_server: PoolServerKit) -> AsyncIterator[Pool]:
    pool = Pool(pool_server)
    for _ in range(2):  # the first of them has not heard of the last
        for each in pool.all:
            each.rates._heard = -REST_S
            await each.rates.refresh()
    yield pool
    for each in pool.all:
        await each.rates.close()
    pool.catalog.close()


@pytest.mark.parametrize(
    ("asked", "admitted"),
    [((200, 200, 200), [20, 20, 20]), ((200, 0, 0), [60, 0, 0]), ((200, 10, 0), [50, 10, 0]), ((20, 20, 20), [20, 20, 20])],
)
async def test_all_replicas_together_admit_the_limit(pool: Pool, asked: tuple[int, ...], admitted: list[int]) -> None:
    assert await pool.settled(*asked) == pytest.approx(admitted, abs=1)


async def test_a_limit_of_less_than_one_request_for_each_replica_is_admitted(pool: Pool) -> None:
    await pool.settled(5, 5, 5, limit=2)
    admitted = [await pool.second(5, 5, 5, limit=2) for _ in range(15)]
    assert sum(map(sum, admitted)) == pytest.approx(30, abs=3)


async def test_a_neighbour_notices_nothing_and_nobody_reads_of_it(pool: Pool) -> None:
    await pool.settled(500, 500, 500)
    before = [each.admits(60, "two") for each in pool.all[:1]]
    assert before == [60]
    found = pool.all[1].table.exchange({"three": 1.0})
    assert found == OtherReplicas(2, {})


async def test_light_use_costs_no_statement_and_heavy_use_one_a_second_for_any_number_of_engines(pool: Pool) -> None:
    before = pool.all[0].table.asked
    for _ in range(5):
        await pool.second(1, 1, 1)
    assert pool.all[0].table.asked == before
    for engine in range(100):
        pool.all[0].admits(30, f"engine {engine}")
    await pool.second(30)
    assert pool.all[0].table.asked == before + 1
    assert pool.server.rows("SELECT count(*) FROM asked", "SELECT max(cardinality(engines)) FROM asked") == [3, 101]


async def test_a_replica_that_died_holds_its_share_for_seconds_by_the_time_of_the_server(pool: Pool) -> None:
    await pool.settled(200, 200, 200)
    pool.all.pop(1)
    pool.server.run(f"UPDATE asked SET at = at - interval '{COUNTS_S} s'")
    assert await pool.settled(200, 200) == pytest.approx([30, 30], abs=1)
    assert pool.server.rows("SELECT count(*) FROM asked") == [3]
    assert pool.all[0].table.exchange({}).replicas == 2
    pool.server.run(f"UPDATE asked SET at = at - interval '{LIVES_S} s'")
    for each in pool.all:
        each.table.exchange({})
    assert pool.all[0].table.exchange({}).replicas == 1
    assert pool.server.rows("SELECT count(*) FROM asked") == [2]


async def test_while_the_database_is_away_shares_hold_and_are_even_parts_then(pool: Pool) -> None:
    await pool.settled(200, 0, 0)
    with pool.server.away(), capture_logs() as logs:
        assert [await pool.second(200, 0, 0) for _ in range(3)] == [[60, 0, 0]] * 3
        assert [entry["event"] for entry in logs] == [
            "this replica shares no limits of requests: the pool's database does not answer"
        ]
        pool.all[0].rates._heard -= HOLDS_S
        for _ in range(2):  # what is in the bucket then stays there
            await pool.second(200, 0, 0)
        assert await pool.second(200, 0, 0) == [20, 0, 0]
    assert (await pool.settled(200, 0, 0))[0] == 60


async def test_an_exchange_that_takes_long_comes_less_often_and_the_rates_still_count(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_rates, "WORK", 1e-6)
    await pool.second(200)
    assert PAUSE_S < pool.all[0].rates._pause < COUNTS_S - PAUSE_S


async def test_a_database_that_does_not_answer_keeps_no_request_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_statements, "ASK_S", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        replica = Replica(f"postgresql://pool:secret@127.0.0.1:{silent.getsockname()[1]}/pool?connect_timeout=2", [0.0])
        asking = asyncio.create_task(replica.rates.refresh())
        await asyncio.sleep(0)
        begun = time.monotonic()
        assert replica.admits(100) == 60
        assert time.monotonic() - begun < 0.1
        await asking
        await replica.rates.close()


async def test_replicas_exchange_again_and_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_rates, "PAUSE_S", 0.01)
    monkeypatch.setattr(request_rates, "SWEEP_S", 0.0)
    works = [asyncio.create_task(each.rates.run()) for each in pool.all]
    try:
        pool.all[0].admits(200)
        pool.all[1].admits(200)
        with pool.server.away():
            await eventually(lambda: not pool.all[0].rates._answers)
        pool.all[0].admits(200)
        await eventually(lambda: pool.all[0].rates._answers)
    finally:
        for work in works:
            work.cancel()


async def answers(kit: PoolKit, number: int, host: str = HOST) -> list[int]:
    return [(await kit.people.get("/api/v1/auth/me", headers={"Host": host})).status_code for _ in range(number)]


async def test_the_requests_of_an_environment_are_limited_over_all_pods(
    pool_server: PoolServerKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    async with (
        pool_of(tmp_path / "one", server=pool_server.url) as one,
        pool_of(tmp_path / "two", server=pool_server.url, keys=one.keys) as two,
    ):
        for spec, host in ((SPEC, HOST), (OTHER_SPEC, OTHER_HOST)):
            await pool_server.databases.ensure(POOL, spec.ref)
            await one.pools.deploy(replace(spec, request_limit=20), await sent(url=f"https://{host}"))
        await two.pools.engine(POOL, REF)
        shared = [kit.opened.shared for kit in (one, two)]
        rates = [each.rates for each in shared if each is not None]
        for each in rates:
            monkeypatch.setattr(each._here, "_clock", lambda: clock[0])
        seconds = []
        for _ in range(12):
            seconds.append([answer for kit in (one, two) for answer in await answers(kit, 30)])
            clock[0] += 1
            for each in rates:
                await each.refresh()
        assert {answer for second in seconds for answer in second} == {401, 429}
        assert [second.count(401) for second in seconds[-5:]] == pytest.approx([20] * 5, abs=1)
        for kit in (one, two):
            assert await answers(kit, 20, OTHER_HOST) == [401] * 20


async def admitted(client: httpx.AsyncClient, urls: list[str], seconds: float) -> list[int]:
    """Return how many requests each of them admits in that time, in which they get more than the limit."""
    until, numbers = time.monotonic() + seconds, [0] * len(urls)
    while time.monotonic() < until:
        answers = await asyncio.gather(*[client.get(f"{url}/e/{REF.id}/api/v1/auth/me") for url in urls])
        numbers = [number + (answer.status_code == 401) for number, answer in zip(numbers, answers, strict=True)]
    return numbers


async def test_two_processes_admit_the_limit_together_and_one_alone_admits_it_all(
    pool_server: PoolServerKit, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        processes = TwoProcesses.started(tmp_path, pool_server, stack)
        urls = processes.urls()
        await pool_server.databases.ensure(POOL, REF)
        pools = Pools(processes.keys, lambda pool: urls[0])
        await pools.deploy(replace(SPEC, request_limit=20), await sent(url=""))
        async with httpx.AsyncClient(timeout=60) as client:

            async def have_even_parts() -> bool:
                return max(await admitted(client, urls, 2)) <= 26

            async def has_all() -> bool:
                return min(await admitted(client, urls[:1], 2)) >= 30

            await eventually(have_even_parts)
            assert min(await admitted(client, urls, 2)) > 0
            processes.kill("two")
            await eventually(has_all)
        await pools.aclose()
