"""A pool whose server goes on from an older state: from a backup, or on a standby that had not got the last changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tenantry.model.facts import EngineRef
from tenantry.model.verdicts import Halt
from tests.scenario.data_world import PASSWORD
from tests.scenario.postgres import Machine, machine
from tests.support.pool_server_fixtures import server_of_pools
from tests.support.pool_servers import PoolServerKit
from tests.support.pools import HOST, OTHER, OTHER_SPEC, POOL, REF, SPEC, PoolKit, pool_of, sent

pytestmark = pytest.mark.slow
OTHER_HOST = "dev--globex.apps.example.com"


@pytest.fixture
def server_machine() -> Iterator[Machine]:
    with machine(passwords=True) as made:
        yield made


@pytest.fixture
async def kit(server_machine: Machine) -> PoolServerKit:
    kit = server_of_pools(server_machine.address)
    await kit.databases.ensure_pool(EngineRef("", "eu", POOL, slug="small"))
    return kit


@pytest.fixture
async def replicas(kit: PoolServerKit, tmp_path: Path) -> AsyncIterator[tuple[PoolKit, PoolKit]]:
    async with (
        pool_of(tmp_path / "one", server=kit.url) as one,
        pool_of(tmp_path / "two", server=kit.url, keys=one.keys) as two,
    ):
        await kit.databases.ensure(POOL, REF)
        await one.pools.deploy(SPEC, await sent(PASSWORD))
        yield one, two


async def looked(*replicas: PoolKit) -> None:
    """Each replica looks at the records, if need be on a new connection."""
    for replica in replicas:
        with suppress(Halt):
            await replica.pools.engine(POOL, REF)
        await replica.pools.engine(POOL, REF)


async def test_each_replica_knows_what_the_server_has_now(
    server_machine: Machine, kit: PoolServerKit, replicas: tuple[PoolKit, PoolKit]
) -> None:
    one, two = replicas
    await asyncio.to_thread(server_machine.back_up)
    await looked(one, two)
    await kit.databases.ensure(POOL, OTHER)
    await one.pools.deploy(OTHER_SPEC, await sent(url=f"https://{OTHER_HOST}"))
    for number in range(3):
        await one.pools.deploy(SPEC, await sent(f"lost again {number}"))
    await looked(one, two)
    assert [await each.signs_in("lost again 2") for each in replicas] == [200, 200]
    await asyncio.to_thread(server_machine.put_back)
    await looked(one, two)
    assert [await each.signs_in(PASSWORD, OTHER_HOST) for each in replicas] == [404, 404]
    await one.pools.deploy(SPEC, await sent("battery staple"))
    await looked(two)
    assert [await each.signs_in("battery staple", HOST) for each in replicas] == [200, 200]
