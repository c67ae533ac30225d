"""P34: the five figures of many environments in `tenantry up`, which is a process of its own and is reached by REST only.

Environments are created until all are Ready, and deleted until none is left. kcp 0.30, by its own figures, creates 8 a second.
Each takes 7.4 to 9.8 MiB, and the deletion an hour. It has 160,000 series at 3,000, and its memory stays.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import orjson
import yaml

from tests.bench.row import Better, Row, Scale, told
from tests.bench.rows.server import Server, started
from tests.bench.rows.subjects import declared_object, secret
from tests.support.ports import free_port

ENVIRONMENTS, FEW = 10_000, 10
CLIENTS = 32
WITHIN_S = 600.0
AGAIN_S = 0.5
OPERATIONS = 520
"""A tenant keeps 500; the others are of the platform."""
SETTLES_S = 15.0
"""Freed memory goes back every ten seconds."""
MOVES = 1 << 20
"""Bytes by which a process at rest may grow or shrink."""
CREATED_S, MEMORY, DELETED_S, REST = 30.0, 100 << 10, 300.0, 1.2
"""Gates: environments a second, bytes of each, seconds to delete all, and the memory afterwards against that of the start."""
USER, PASSWORD = "ann", "a long password"
Session = aiohttp.ClientSession
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Found:
    """memory: resident bytes at the start, with all, and after the deletion. series: of the metrics, with few and with all."""

    created_s: float
    deleted_s: float
    memory: tuple[int, int, int]
    series: tuple[int, int]


def measure(scale: Scale) -> Sequence[Row]:
    """One life of a platform."""
    count = scale.of(ENVIRONMENTS)
    with _platform(scale.folder / "p34") as (server, metrics):
        return rows_of(count, asyncio.run(_life(server, metrics, count, SETTLES_S * min(1.0, 10 * scale.share))))


def rows_of(count: int, found: Found) -> Sequence[Row]:
    """Return a row for each figure."""
    start, full, after = found.memory
    each, rate = (full - start) / count, count / found.created_s
    of = f"of {count:,} environments"

    def one(work: str, reference: str, ratio: float, better: Better, gate: float, figures: tuple[str, str], **beside: str) -> Row:
        return Row("P34", f"{work} {of}", reference, ratio, (ratio, ratio), better, gate, figures, beside)

    limit = f"{CREATED_S:g}/s"
    return (
        one("creation by REST until Ready", limit, rate / CREATED_S, "higher", 1.0, (f"{rate:.0f}/s", limit),
            aim="100/s", kcp="8/s"),
        one("steady memory, each", "100 KiB", each / MEMORY, "lower", 1.0, (_kib(each), "100 KiB"), aim="40 KiB", kcp="7.4 MiB"),
        one("deletion", told(DELETED_S), found.deleted_s / DELETED_S, "lower", 1.0, (told(found.deleted_s), told(DELETED_S)),
            aim="60 s", kcp="about an hour"),
        one("metric series", f"those of {FEW}", found.series[1] / found.series[0], "lower", 1.0,
            (f"{found.series[1]:,}", f"{found.series[0]:,}"), kcp="160,000 at 3,000"),
        one("memory after the deletion", "that of the start", after / start, "lower", REST, (_mib(after), _mib(start)),
            full=_mib(full), kcp="stays"),
    )  # fmt: skip


def _kib(size: float) -> str:
    return f"{size / 1024:.1f} KiB"


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"


@contextmanager
def _platform(folder: Path) -> Iterator[tuple[Server, str]]:
    """`tenantry up` with a tenant and its ADMIN, and the URL of its metrics."""
    source = folder / "source"
    source.mkdir(parents=True)
    (source / "platform.yaml").write_text(yaml.safe_dump_all(_declared()))
    base, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [sys.executable, "-m", "tenantry.cli.main", "up", str(source), "--listen", base]
    command += ["--state", str(folder / "state"), "--yes"]
    log = folder / "log"
    with started(command, lambda: b"Ready: " in log.read_bytes(), log, TENANTRY_METRICS=metrics) as process:
        yield Server("up", process, f"http://{base}", {}, {}), f"http://{metrics}/metrics"


def _declared() -> Sequence[Mapping[str, Any]]:
    user = {"username": USER, "role": "ADMIN", "tenant": "acme", "passwordSecretRef": {"name": USER}}
    return (
        declared_object("Region", {}, name="here"),
        declared_object("Tenant", {}, name="acme"),
        declared_object("User", user, name=USER, namespace="tenantry-system"),
        secret(USER, "user", "password", PASSWORD, namespace="tenantry-system"),
    )


async def _life(server: Server, metrics: str, count: int, settles_s: float) -> Found:
    async with Session(server.base, timeout=aiohttp.ClientTimeout(WITHIN_S)) as session:
        session.headers["Authorization"] = f"Bearer {await _token(session)}"
        scraped = Scraped(session, metrics)
        first, *ids = await _created(session, scraped, range(FEW))
        await _deleted(session, scraped, [first], len(ids))  # so that each kind of request was answered
        start, few = await _at_rest(server, scraped, settles_s), await scraped.series()
        began = time.perf_counter()
        ids += await _created(session, scraped, range(FEW, FEW + count))
        created_s = time.perf_counter() - began
        full, many = await _at_rest(server, scraped, settles_s), await scraped.series()
        began = time.perf_counter()
        await _deleted(session, scraped, ids, 0)
        deleted_s = time.perf_counter() - began
        after = await _at_rest(server, scraped, settles_s)
        return Found(created_s, deleted_s, (start, full, after), (few, many))


async def _token(session: Session) -> str:
    async with session.post("/api/v1/auth/token", data={"username": USER, "password": PASSWORD}) as answer:
        answer.raise_for_status()
        return str(orjson.loads(await answer.read())["access_token"])


class Scraped:
    """The metrics of a platform."""

    def __init__(self, session: Session, url: str) -> None:
        self._session = session
        self._url = url

    async def series(self) -> int:
        """Return how many there are."""
        return len(await self._lines())

    async def ready(self) -> int:
        """Return the number of Environments that are Ready."""
        named = [line for line in await self._lines() if line.startswith("tenantry_ready{") and 'state="ready"' in line]
        return sum(_value(line) for line in named if 'kind="Environment"' in line)

    async def objects(self, kind: str) -> int:
        """Return the number of objects of that kind."""
        return sum(_value(line) for line in await self._lines() if line.startswith(f'tenantry_resources{{kind="{kind}"}}'))

    async def _lines(self) -> list[str]:
        async with self._session.get(self._url, headers={"Authorization": ""}) as answer:
            answer.raise_for_status()
            return [line for line in (await answer.text()).splitlines() if not line.startswith("#")]


def _value(line: str) -> int:
    return int(float(line.rpartition(" ")[2]))


async def _created(session: Session, scraped: Scraped, numbers: Sequence[int]) -> list[str]:
    """Create environments until all are Ready; their ids."""
    before = await scraped.ready()

    async def create(number: int) -> str:
        body = {"name": f"Environment {number}", "slug": f"env-{number}", "region": "here"}
        answer = await _accepted(session, "POST", "/api/v1/environments", json=body)
        return str(answer["environment"]["id"])

    ids = await _at_once(create, numbers)
    await _until(scraped.ready, before + len(ids))
    return ids


async def _deleted(session: Session, scraped: Scraped, ids: Sequence[str], left: int) -> None:
    """Delete environments until only so many are left."""
    await _at_once(lambda id_: _accepted(session, "DELETE", f"/api/v1/environments/{id_}"), ids)
    await _until(lambda: scraped.objects("Environment"), left)


async def _at_once(work: Callable[[T], Awaitable[U]], given: Sequence[T]) -> list[U]:
    """Return what `work` returns for each, over CLIENTS connections."""
    places = asyncio.Semaphore(CLIENTS)

    async def in_turn(each: T) -> U:
        async with places:
            return await work(each)

    return await asyncio.gather(*map(in_turn, given))


async def _accepted(session: Session, method: str, path: str, **options: Any) -> Any:
    """Return the answer. Raises RuntimeError for any but 202."""
    async with session.request(method, path, **options) as answer:
        content = await answer.read()
        if answer.status != 202:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:500]!r}")
        return orjson.loads(content)


async def _until(count: Callable[[], Awaitable[int]], wanted: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            if await count() == wanted:
                return
            await asyncio.sleep(AGAIN_S)  # a scrape takes a hundredth of a second of what is measured


async def _at_rest(server: Server, scraped: Scraped, settles_s: float) -> int:
    """Return the resident bytes once only the Operations are left that are to be kept: a sweep removes the others."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            if await scraped.objects("Operation") <= OPERATIONS:
                return await asyncio.to_thread(_settled, server, settles_s)
            await asyncio.sleep(AGAIN_S)


def _settled(server: Server, settles_s: float) -> int:
    """Return the resident bytes of the process once they move no more for so many seconds."""
    end, seen = time.monotonic() + 10 * settles_s, deque[tuple[float, int]]()
    while True:
        now, size = time.monotonic(), server.memory
        seen.append((now, size))
        while now - seen[0][0] > settles_s:
            seen.popleft()
            sizes = [each for _, each in seen]
            if max(sizes) - min(sizes) <= MOVES or now > end:
                return size
        time.sleep(AGAIN_S)
