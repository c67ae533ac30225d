"""Replicas of a pool on a server that are killed under load: each request succeeds at its second try, and no row is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import httpx
import pytest

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.pools.client import Pools
from tenantry.model.facts import EngineEndpoint, Password
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tests.campaigns.scale import at_full
from tests.contract.engine_admins import AdminSecret
from tests.scenario.data_world import DATA, MANIFEST, PASSWORD
from tests.support.pool_processes import TwoProcesses
from tests.support.pool_servers import PoolServerKit
from tests.support.pools import POOL, REF, SPEC, sent
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
CLIENTS = 8
KILLS = at_full(50, otherwise=4)
ALREADY = "there is a row with this value already"
"""The first try was committed, and its answer was lost with the replica."""
BETWEEN = 40
"""Rows that are answered between two kills."""


@asynccontextmanager
async def an_engine_at(processes: TwoProcesses) -> AsyncIterator[str]:
    """The engine of acme with the app crm; the token of an editor."""
    (url, *_), scratch = processes.urls(), processes.folder / "scratch"
    for folder in ("scratch", "source"):
        (processes.folder / folder).mkdir()
    (processes.folder / "source" / "app.yaml").write_text(MANIFEST)
    build(processes.folder / "source", processes.folder / "crm.tapp")
    await processes.server.databases.ensure(POOL, REF)
    pools, engines = Pools(processes.keys, lambda pool: url), HttpEngines(processes.keys, AdminSecret(), inspect, scratch)
    await pools.deploy(SPEC, await sent(PASSWORD, url=""))
    admin = engines.at(EngineEndpoint(REF.id, f"{url}/e/{REF.id}"))
    await admin.publish(processes.folder / "crm.tapp")
    await admin.add_identity("ed", Password(clear=PASSWORD), [("crm", "editor")])
    async with httpx.AsyncClient(base_url=url) as client:
        form = {"username": "ed", "password": PASSWORD}
        yield str((await client.post(f"/e/{REF.id}/api/v1/auth/token", data=form)).json()["access_token"])
    await engines.aclose()
    await pools.aclose()


@dataclass
class Load:
    """Clients that insert rows, each at one replica or the other. answered: the names that were; failed: twice in a row."""

    processes: TwoProcesses
    token: str
    answered: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    ended: bool = False
    names: Iterator[int] = field(default_factory=count)

    async def run(self) -> None:
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {self.token}"}, timeout=60) as client:
            await asyncio.gather(*[self._write(client) for _ in range(CLIENTS)])

    async def _write(self, client: httpx.AsyncClient) -> None:
        while not self.ended:
            number = next(self.names)
            first = await self._insert(client, name := f"row {number}", number)
            # As behind a Service: the second try comes to a pod that is there then.
            told = first and await self._insert(client, name, number + 1)
            if not told or ALREADY in told:
                self.answered.append(name)
            else:
                self.failed.append(f"{first}; {told}")

    async def _insert(self, client: httpx.AsyncClient, name: str, turn: int) -> str:
        """Return the reason of a failure, `""` if it is answered."""
        urls = self.processes.urls()
        url = urls[turn % len(urls)]
        try:
            answer = await client.post(f"{url}/e/{REF.id}{DATA}/accounts", json={"name": name})
        except httpx.TransportError as error:
            return repr(error)
        return "" if answer.status_code == 201 else f"{answer.status_code} {answer.text}"


async def reached(load: Load, rows: int) -> None:
    """Return once so many rows were answered, or a request failed."""
    await eventually(lambda: len(load.answered) >= rows or load.failed)


async def test_a_replica_that_is_killed_under_load_loses_no_row_and_no_request_after_one_retry(
    pool_server: PoolServerKit, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        processes = TwoProcesses.started(tmp_path, pool_server, stack)
        async with an_engine_at(processes) as token:
            load = Load(processes, token)
            writing = asyncio.create_task(load.run())
            for number in range(KILLS):
                await reached(load, len(load.answered) + BETWEEN)
                victim = ("one", "two")[number % 2]
                processes.kill(victim)
                await reached(load, len(load.answered) + BETWEEN)
                await asyncio.to_thread(processes.start, victim)
            await reached(load, len(load.answered) + BETWEEN)
            load.ended = True
            await writing
            assert load.failed == []
            for url in processes.urls():
                assert await kept(url, token) >= set(load.answered)


async def kept(url: str, token: str) -> set[str]:
    """The names of all rows."""
    found: Counter[str] = Counter()
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        path: str | None = f"/e/{REF.id}{DATA}/accounts?limit=500"
        while path:
            answer = await client.get(path)
            assert answer.status_code == 200, answer.text
            found.update(row["name"] for row in answer.json())
            link = answer.links.get("next")
            path = link["url"] if link else None
    return set(found)
