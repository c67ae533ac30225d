"""P3, P6, P7 and P10 beside a platform at rest, with 2,000 Environments that were made by the floor.

The operator is stopped while the facade is measured, and the facade while the operator is.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import aiohttp
import orjson

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import MERGE_PATCH
from tenantry.adapters.kubernetes.store import KubernetesStore
from tests.bench.cluster.declaring import REGION, tenant
from tests.bench.cluster.floor import Floor
from tests.bench.cluster.place import Place, client_of, cpu_of, memory_of, object_, place, quiet, requests_of, written
from tests.bench.row import Row, Scale, Times, Took, interleaved, row, told
from tests.cluster.running import token
from tests.scenario.cli import environment as variables

OURS = "/api/v1/environments"
THEIRS = "/apis/tenantry.dev/v1alpha1/environments"
TENANTS_PATH = "/apis/tenantry.dev/v1alpha1/tenants"
RESYNC_CPU_S = 0.5
Session = aiohttp.ClientSession
ENVIRONMENTS = 2000
TENANTS = 667
"""With their namespaces, Secrets and Operations, and those of the Environments: 10,001 objects."""
RESYNC_S = 30
LISTED = 1000
EDITS = 200
POSTS = 100
MEMORY = 300 << 20


def measure(scale: Scale) -> Sequence[Row]:
    environments, tenants = scale.of(ENVIRONMENTS), scale.of(TENANTS)
    with place(scale.folder / "standing") as at:
        asyncio.run(fill(at, tenants, environments))
        with at.platform.operator() as operator:  # its first start makes keys, users and the Region's status
            asyncio.run(quiet(operator.process.pid))
        operators = Operators(at)
        starts = interleaved(operators.restart, operators.list, 3 * scale.repetitions)
        resynced = operators.resync()
        held = f"{environments:,} Environments"
        with at.platform.api() as url:
            served = _served(at, url, environments, scale)
            api = memory_of(at.platform.pids["api"])
    work = f"restart with {operators.objects:,} objects until idle, those of {held} among them"
    reference = "a process that lists the same kinds in pages"
    return (
        no_writes("P3", f"writes of a restart with {held} that are Ready", operators.writes),
        no_writes("P3", f"writes of a resync of {operators.objects:,} objects", resynced),
        row("P6", work, reference, starts, "lower", 4.0),
        *served,
        _memory("operator", held, operators.memory),
        _memory("api", held, api),
    )


async def fill(at: Place, tenants: int, environments: int, *, with_children: bool = False) -> None:
    """Put so many Tenants and Environments there, as if they were Ready."""
    async with client_of(at.admin) as admin, client_of(at.operator) as operator:
        await KubernetesStore(admin).create(object_("Region", REGION))
        await Floor(admin, operator, at.platform.api_url, with_children=with_children).run(tenants, environments)


class Operators:
    """Starts operators anew. writes, memory: of the last that came to rest; objects: how many the kinds of the platform have."""

    def __init__(self, at: Place) -> None:
        self._at = at
        self.writes = self.memory = self.objects = 0

    def restart(self) -> Took:
        """From the start of the process to the last that it had to do."""
        before = asyncio.run(requests_of(self._at.plane))
        start = time.perf_counter()
        with self._at.platform.operator() as operator:
            pid = operator.process.pid
            ended = asyncio.run(quiet(pid))
            took = Took(ended - start, cpu_of(pid))
            self.memory = memory_of(pid)
            self.writes = written(before, asyncio.run(requests_of(self._at.plane))).total()
        return took

    def list(self) -> Took:
        """The reference."""
        given = variables() | {"KUBECONFIG": str(self._at.operator), "PYTHONPATH": os.pathsep.join(sys.path)}
        cpu, start = _of_children(), time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "tests.bench.cluster.listing"], env=given, capture_output=True, check=True)
        self.objects = int(done.stdout)
        return Took(time.perf_counter() - start, _of_children() - cpu)

    def resync(self, after_s: int = RESYNC_S) -> int:
        """Writes of one that looks at everything again. after_s: longer than that takes, else the next follows at once."""
        with self._at.platform.operator(TENANTRY_RESYNC=f"{after_s}s") as operator:
            pid = operator.process.pid
            asyncio.run(quiet(pid))
            before, cpu, latest = asyncio.run(requests_of(self._at.plane)), cpu_of(pid), time.perf_counter() + 2 * after_s
            # It has begun by then, and rest takes longer than that. One over few objects is hardly seen.
            while cpu_of(pid) - cpu < RESYNC_CPU_S and time.perf_counter() < latest:
                time.sleep(1)
            asyncio.run(quiet(pid))
            return written(before, asyncio.run(requests_of(self._at.plane))).total()


def _of_children() -> float:
    """CPU seconds of the processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _served(at: Place, url: str, environments: int, scale: Scale) -> tuple[Row, ...]:
    with asyncio.Runner() as runner:
        return runner.run(_Facade(at, url).measure(min(LISTED, environments), scale))


class _Facade:
    """The facade beside the API server itself, with one client library, one request at a time."""

    def __init__(self, at: Place, url: str) -> None:
        self._at = at
        self._url = url
        self._token = token(url, at.platform.kube)

    async def measure(self, listed: int, scale: Scale) -> tuple[Row, ...]:
        access = await from_kubeconfig(self._at.admin).access()
        ours = {"Authorization": f"Bearer {self._token}"}
        theirs = {"Authorization": access.authorization}
        connector = aiohttp.TCPConnector(ssl=access.tls or True)
        async with (
            aiohttp.ClientSession(self._url, headers=ours) as facade,
            aiohttp.ClientSession(access.server, headers=theirs, connector=connector) as server,
        ):
            lists = await self._lists(facade, server, listed, scale)
            stale = await self._staleness(facade, server, scale.of(EDITS))
            posts = await self._posts(facade, server, scale.of(POSTS))
        work, reference = f"GET /environments, {listed:,} items", "the API server's own list"
        beside: dict[str, Any] = {"staleness p50": told(median(stale)), "p99": told(_p99(stale))}
        first = row("P7", work, reference, lists, "lower", 0.5, **beside)
        return first, row("P10", "POST /tenants until durable, median", "a direct POST to the API server", posts, "lower", 2.0)

    async def _lists(self, facade: Session, server: Session, listed: int, scale: Scale) -> Times:
        took: tuple[list[Took], list[Took]] = ([], [])
        for _ in range(7 * scale.repetitions + 1):
            for taken, session, path in zip(took, (facade, server), (OURS, THEIRS), strict=True):
                start = time.perf_counter()
                async with session.get(f"{path}?limit={listed}") as answer:
                    assert answer.status == 200
                    await answer.read()
                taken.append(Took(time.perf_counter() - start))
        return Times(took[0][1:], took[1][1:])

    async def _staleness(self, facade: Session, server: Session, edits: int) -> list[float]:
        """Seconds from the API server's answer to an edit until the facade shows it, one edit after another."""
        async with facade.get(f"{OURS}?limit=1") as answer:
            (shown,) = orjson.loads(await answer.read())
        path = f"/apis/tenantry.dev/v1alpha1/namespaces/tenant-{shown['tenant']['slug']}/environments/{shown['slug']}"
        taken = []
        for number in range(edits):
            name = f"Edited {number}"
            patch = orjson.dumps({"spec": {"displayName": name}})
            async with server.patch(path, data=patch, headers={"Content-Type": MERGE_PATCH}) as answer:
                assert answer.status == 200, await answer.text()
            start = time.perf_counter()
            while True:
                async with facade.get(f"{OURS}/{shown['id']}") as answer:
                    if orjson.loads(await answer.read())["name"] == name:
                        break
            taken.append(time.perf_counter() - start)
        return taken

    async def _posts(self, facade: Session, server: Session, posts: int) -> Times:
        took: tuple[list[Took], list[Took]] = ([], [])
        for number in range(posts):
            named = {"name": f"Posted {number}", "slug": f"posted-{number}"}
            bodies = named, tenant(90_000 + number)
            for taken, session, path, body in zip(took, (facade, server), ("/api/v1/tenants", TENANTS_PATH), bodies, strict=True):
                start = time.perf_counter()
                async with session.post(path, json=body) as answer:
                    assert answer.status == 201, await answer.text()
                    await answer.read()
                taken.append(Took(time.perf_counter() - start))
                # Its Operation follows the answer: neither the reference nor the next post is to run beside it.
                async with facade.get("/api/v1/operations?limit=1") as answer:
                    await answer.read()
        return Times(*took)


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def no_writes(id_: str, work: str, writes: int) -> Row:
    return Row(id_, work, "none", float(writes), (writes, writes), "lower", 0.0, (str(writes), "0"))


def _memory(process: str, held: str, size: int) -> Row:
    share = size / MEMORY
    figures = (f"{size / 2**20:.0f} MiB", f"{MEMORY >> 20} MiB")
    return Row("memory", f"{process} with {held}", "300 MiB", share, (share, share), "lower", 1.0, figures)
