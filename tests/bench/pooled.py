"""The memory and the CPU time of engines in a pool, which is a process of its own. Each engine has an app."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.folders import SentFacts
from tenantry.adapters.pools.client import Pools
from tenantry.model.facts import EngineEndpoint, EngineRef, EngineSpec
from tenantry.packages.check import inspect
from tenantry.ports import EngineAdmin
from tests.bench.dedicated import IDLE_S, PACKAGE
from tests.bench.handles import ADMIN
from tests.bench.rows.server import Server, started
from tests.contract.engine_admins import AdminSecret
from tests.support.pool_servers import PoolServerKit
from tests.support.ports import free_port

POOL = "pool-0123456789ab"


class PoolCost(NamedTuple):
    """Resident bytes of a pool without engines; what each engine adds at rest, and once it is open. CPU seconds for each: to
    create it, and for its first request."""

    empty: float
    at_rest: float
    open: float
    made_cpu: float
    opened_cpu: float


@dataclass
class PoolSite:
    """The folder of a pool, and the keys that it trusts. server: where its engines have databases, None for its folder."""

    folder: Path
    keys: KeyRing
    server: PoolServerKit | None = None

    @contextmanager
    def running(self) -> Iterator[Server]:
        url = f"http://127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", "tenantry.cli.main", "pool", "--data", str(self.folder / "data")]
        jwks = self.folder / "jwks.json"
        jwks.write_text(json.dumps(self.keys.jwks()))
        about = {"POOL": POOL, "FACADE_URL": "http://api", "JWKS": str(jwks)}
        if self.server is not None:
            (self.folder / "url").write_text(self.server.url)
            about["DATABASE_URL"] = str(self.folder / "url")
        settings: dict[str, Any] = {f"TENANTRY_MANAGED__{name}": value for name, value in about.items()}
        command += ["--listen", url.removeprefix("http://")]
        with started(command, f"{url}/readyz", self.folder / "log", **settings) as process:
            yield Server("pool", process, url, {}, {})


def weigh(folder: Path, count: int, server: PoolServerKit | None = None) -> PoolCost:
    """Of a pool with so many engines; at most as many as a pool keeps open. server: where their databases are."""
    folder.mkdir(parents=True)
    site = PoolSite(folder, KeyRing(folder / "keys", "tenantry"), server)
    prepare(site)
    with site.running() as pool:
        time.sleep(IDLE_S)
        empty = float(pool.memory)
        before = pool.cpu_s()
        asyncio.run(deploy(site, pool.base, count))
        made = pool.cpu_s() - before
        asyncio.run(publish(site, pool.base, count))
    with site.running() as pool:
        time.sleep(IDLE_S)
        at_rest, before = float(pool.memory), pool.cpu_s()
        with httpx.Client(base_url=pool.base, timeout=60) as client:
            for number in range(count):
                client.get(f"/e/id-{number}/api/v1/data/music-store/Artist")
        opened = pool.cpu_s() - before
        time.sleep(IDLE_S)
        return PoolCost(empty, (at_rest - empty) / count, (pool.memory - at_rest) / count, made / count, opened / count)


def prepare(site: PoolSite) -> None:
    """Make the database of the pool itself, if it is on a server."""
    if site.server is not None:
        asyncio.run(site.server.databases.ensure_pool(EngineRef("", "eu", POOL, slug="server")))


def _ref(number: int) -> EngineRef:
    return EngineRef("tenant-acme", f"env{number}", f"id-{number}", "acme", f"env{number}", "uid-acme")


async def deploy(site: PoolSite, url: str, count: int) -> None:
    """Make so many engines in the pool at that URL."""
    pools = Pools(site.keys, lambda pool: url)
    for number in range(count):
        if site.server is not None:
            await site.server.databases.ensure(POOL, _ref(number))
        await pools.deploy(EngineSpec(_ref(number), "eu", "Kubernetes", pool=POOL), SentFacts(ADMIN, "mark", ""))
    await pools.aclose()


async def publish(site: PoolSite, url: str, count: int, user: Callable[[EngineAdmin], Awaitable[object]] | None = None) -> None:
    """Install the app in each of them. user: lets one in, if it is given."""
    scratch = site.folder / "scratch"
    scratch.mkdir()
    engines = HttpEngines(site.keys, AdminSecret(), inspect, scratch)
    for number in range(count):
        admin = engines.at(EngineEndpoint(f"id-{number}", f"{url}/e/id-{number}"))
        await admin.publish(PACKAGE)
        if user is not None:
            await user(admin)
    await engines.aclose()
