"""H2: a pool of 300 engines with an app: its memory with 30 of them in use, and the first request to one that sleeps.

The pool is a process, and both clients and operator reach it over HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import NamedTuple

import httpx

from tenantry.adapters.keys import KeyRing
from tenantry.model.facts import Password
from tenantry.ports import EngineAdmin
from tests.bench.pooled import PoolSite, deploy, prepare, publish
from tests.bench.row import Row, Scale, stopwatch, told
from tests.support.pool_server_fixtures import running_server_of_pools
from tests.support.pool_servers import PoolServerKit

ENGINES, ACTIVE = 300, 30
ROUNDS = 20
"""Requests to each engine in use before the process is weighed."""
BYTES, FIRST_S = 512 << 20, 0.05
USER, PASSWORD = "ann", "a long password"
ROLES = (("music-store", "manager"),)


class Found(NamedTuple):
    """Resident bytes of a pool whose engines sleep, and with some in use; seconds of each first request to one that sleeps."""

    at_rest: int
    in_use: int
    first: Sequence[float]


def measure(scale: Scale) -> Sequence[Row]:
    """Each repetition is a start of the pool: its engines sleep until they are asked."""
    return _rows(scale, None, "a pool")


def measure_on_server(scale: Scale) -> Sequence[Row]:
    """The same for one pod of a pool whose engines have databases on a server of this machine."""
    with running_server_of_pools() as server:
        return _rows(scale, server, "a pod of a pool on PostgreSQL")


def _rows(scale: Scale, server: PoolServerKit | None, where: str) -> Sequence[Row]:
    count, active = max(4, scale.of(ENGINES)), scale.of(ACTIVE)
    folder = scale.folder / f"h2-{'server' if server is not None else 'volume'}"
    folder.mkdir()
    site = PoolSite(folder, KeyRing(folder / "keys", "tenantry"), server)
    prepare(site)
    tokens = _made(site, count)
    return rows_of(count, active, [_measured(site, tokens, active) for _ in range(scale.repetitions)], where)


def rows_of(count: int, active: int, found: Sequence[Found], where: str = "a pool") -> Sequence[Row]:
    """Return the row of the memory, and that of the first requests."""
    sizes = sorted(each.in_use for each in found)
    p99 = sorted(quantiles(each.first, n=100, method="inclusive")[98] for each in found)
    memory, slow = median(sizes), median(p99)
    beside = {"all asleep": _mib(median(each.at_rest for each in found))}
    times = {"p50": told(median(median(each.first) for each in found)), "longest": told(max(max(each.first) for each in found))}
    work = f"memory of {where} of {count} engines with the music store, {active} of them in use"
    asleep = f"p99 of the first request for rows to an engine of it that sleeps, of {count - active}"
    return (
        Row("H2", work, _mib(BYTES), memory / BYTES, (sizes[0] / BYTES, sizes[-1] / BYTES), "lower", 1.0,
            (_mib(memory), _mib(BYTES)), beside),
        Row("H2", asleep, told(FIRST_S), slow / FIRST_S, (p99[0] / FIRST_S, p99[-1] / FIRST_S), "lower", 1.0,
            (told(slow), told(FIRST_S)), times),
    )  # fmt: skip


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"


def _made(site: PoolSite, count: int) -> Mapping[str, str]:
    """Make the engines; the token of a user of each, by the path of a request for rows."""
    with site.running() as pool:
        asyncio.run(deploy(site, pool.base, count))
        asyncio.run(publish(site, pool.base, count, _let_in))
        with httpx.Client(base_url=pool.base, timeout=60) as client:
            return {
                f"/e/id-{number}/api/v1/data/music-store/Artist?limit=20": _token(client, f"/e/id-{number}/api/v1/auth/token")
                for number in range(count)
            }


async def _let_in(admin: EngineAdmin) -> None:
    await admin.add_identity(USER, Password(clear=PASSWORD), ROLES)


def _token(client: httpx.Client, path: str) -> str:
    answer = client.post(path, data={"username": USER, "password": PASSWORD})
    return str(answer.raise_for_status().json()["access_token"])


def _measured(site: PoolSite, tokens: Mapping[str, str], active: int) -> Found:
    used, asleep = list(tokens)[:active], list(tokens)[active:]
    with site.running() as pool, httpx.Client(base_url=pool.base, timeout=60) as client:
        at_rest = pool.memory
        for _ in range(ROUNDS):
            for path in used:
                _ask(client, path, tokens[path])
        in_use = pool.memory
        return Found(at_rest, in_use, [_ask(client, path, tokens[path]) for path in asleep])


def _ask(client: httpx.Client, path: str, token: str) -> float:
    with stopwatch() as took:
        client.get(path, headers={"Authorization": f"Bearer {token}"}).raise_for_status()
    return took.wall
