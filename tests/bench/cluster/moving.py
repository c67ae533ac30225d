"""H6: moves of an engine with 1 GiB between pools, a pod of its own and a pool on a server: the longest time without a write.

The API server, its controllers, the operator, the api, the pools and the engines are processes. The kubelet and the ingress
controller are played. A person writes rows at the host of the environment all the time, with one token, and no row may be lost.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import orjson

from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tests.bench.cluster.declaring import is_ready
from tests.bench.cluster.people import Hosts, Person
from tests.bench.cluster.place import Place, client_of, object_, place
from tests.bench.row import Row, Scale, told
from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.engines import node
from tests.support.pool_server_fixtures import running_server_of_pools
from tests.support.pushing import SHOP, push
from tests.support.waiting import eventually

SIZE = 1 << 30
"""Bytes of the engine's rows before the first move."""
LIMIT_S = 5.0
CELL, LINES = 4000, 15_000
"""Characters of a row, and rows of a request."""
WITHIN_S = 200.0
SPACE = "tenant-acme"
ENVIRONMENT = path_of("tenantry.dev/v1alpha1", "Environment", SPACE, "dev")
HOST = "dev--acme.eu.example.com"
ITEMS, BULK = "/api/v1/data/shop/items", "/api/v1/data/shop/bulk"
MANIFEST = f"""{SHOP}      - {{name: name, type: string, length: 40}}
  - name: bulk
    primaryKey: [id]
    columns:
      - {{name: id, type: integer, generated: true}}
      - {{name: text, type: text}}
roles: {{editor: {{items: [read, write], bulk: [read, write]}}}}
"""
PASSWORD = "correct horse"
MINIMAL = {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}


class Way(NamedTuple):
    """A move. engine: the declaration of the place to which it goes; pool: the name of the pool there, `""` for a pod."""

    told: str
    engine: dict[str, str | None]
    pool: str


WAYS = (
    Way("from a pool to another", {"placement": None, "pool": "other"}, "other"),
    Way("from a pool to a pod of its own", {"placement": "Dedicated", "pool": None}, ""),
    Way("from a pod of its own to a pool", {"placement": None, "pool": "small"}, "small"),
    Way("from a pool to one on PostgreSQL", {"placement": None, "pool": "server"}, "server"),
    Way("from a pool on PostgreSQL to another", {"placement": None, "pool": "small"}, "small"),
)


class Moved(NamedTuple):
    """Seconds without a write, and of the whole move."""

    pause_s: float
    whole_s: float


def measure(scale: Scale) -> Sequence[Row]:
    """A row for each way. The engine goes all of them, one after the other, as often as there are repetitions."""
    with _cluster(scale.folder / "h6") as (at, proxy):
        return asyncio.run(_measured(at, proxy, scale))


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[Place, str]]:
    """A cluster with the environment dev in a pool, its app, and alice, who may write; and the proxy to its Services."""
    with (
        place(folder, controllers=True) as at,
        node(Cluster(at.admin, None), folder / "node", real=True) as pods,
        running_server_of_pools() as server,
    ):
        at.platform.proxy = pods.proxy
        with at.platform.api(), at.platform.leader():
            kube = at.platform.kube
            kube.apply(_secret("pool-server", NAMESPACE, "region", url=server.admin))
            on_server = {"postgres": {"adminSecretRef": {"name": "pool-server", "key": "url"}}}
            pools = [{"name": "small"}, {"name": "other"}, {"name": "server", **on_server}]
            network: dict[str, Any] = {"subdomain": "eu.example.com", "kubernetes": {"ingressClassName": "nginx"}}
            kube.apply(object_("Region", "moves", engine={"pools": pools}, **network))
            kube.apply(object_("Tenant", "acme", displayName="Acme"))
            kube.ready("region/moves", within=300)
            kube.ready("tenant/acme", within=300)
            kube.apply(*_objects(push(at.platform, kube, folder, MANIFEST)))
            for what in ("environment/dev", "app/dev.shop", "identity/alice"):
                kube.ready(what, SPACE, within=300)
            yield at, pods.proxy


def _objects(sha256: str) -> Iterator[dict[str, Any]]:
    yield _secret("alice", SPACE, "identity", password=PASSWORD)
    yield object_("Package", "shop", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256)
    yield object_("Environment", "dev", SPACE, region="moves", engine={"pool": "small"})
    yield object_("App", "dev.shop", SPACE, environment="dev", app="shop", version="1.0.0")
    credential = {"username": "alice", "passwordSecretRef": {"name": "alice", "key": "password"}}
    yield object_("Identity", "alice", SPACE, environment="dev", roles=[{"app": "shop", "role": "editor"}], **credential)


def _secret(name: str, namespace: str, credential: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"tenantry.dev/credential": credential}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


async def _measured(at: Place, proxy: str, scale: Scale) -> tuple[Row, ...]:
    size = scale.of(SIZE)
    async with client_of(at.admin) as client, _person(client, proxy) as person:
        lines = await fill(person, size)
        url = (await client.request("GET", ENVIRONMENT))["status"]["url"]
        moves: list[list[Moved]] = [[] for _ in WAYS]
        writing = asyncio.create_task(person.write(ITEMS))
        for _ in range(scale.repetitions):
            for way, moved in zip(WAYS, moves, strict=True):
                moved.append(await _move(client, person, way))
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        there = (await client.request("GET", ENVIRONMENT))["status"]["url"]
        if there != url:
            raise RuntimeError(f"the URL was {url} and is {there}")
        lost = len(person.written.lost(await _names(person))) + lines - await _count(person)
    beside = {"rows": f"{len(person.written.kept):,}", "lost": str(lost), "refused with": _statuses(person)}
    return tuple(row_of(way, size, moved, beside, held=not lost) for way, moved in zip(WAYS, moves, strict=True))


def _statuses(person: Person) -> str:
    return ", ".join(str(status) if status else "no Ingress" for status in sorted(person.written.refused)) or "nothing"


def row_of(way: Way, size: int, moved: Sequence[Moved], beside: dict[str, str], *, held: bool) -> Row:
    """Return the row of the moves of one way."""
    pauses = sorted(each.pause_s for each in moved)
    middle = median(pauses)
    work = f"longest time without a write while an engine with {size >> 20:,} MiB moves {way.told}"
    spread = (pauses[0] / LIMIT_S, pauses[-1] / LIMIT_S)
    beside = {"whole move": told(median(each.whole_s for each in moved)), **beside}
    return Row("H6", work, told(LIMIT_S), middle / LIMIT_S, spread, "lower", 1.0, (told(middle), told(LIMIT_S)), beside, held)


@asynccontextmanager
async def _person(client: Client, proxy: str) -> AsyncIterator[Person]:
    hosts = Hosts()
    following = asyncio.create_task(hosts.follow(client))
    try:
        async with Person(hosts, HOST, proxy) as person:
            await eventually(lambda: hosts.space(HOST), within=WITHIN_S)
            await person.sign_in("alice", PASSWORD)
            yield person
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def fill(person: Person, size: int) -> int:
    """Insert rows of so many bytes; how many they are. Their texts repeat nothing."""
    texts = random.Random(size)
    count = max(1, size // CELL)
    for first in range(0, count, LINES):
        lines = [orjson.dumps({"text": texts.randbytes(CELL // 2).hex()}) for _ in range(first, min(first + LINES, count))]
        (await person.request("POST", BULK, content=b"\n".join(lines), headers=MINIMAL)).raise_for_status()
    return count


async def _move(client: Client, person: Person, way: Way) -> Moved:
    """Declare the place, and wait until nothing is left of the move and the person has written there."""
    began = time.perf_counter()
    person.written.begin(began)
    await client.request("PATCH", ENVIRONMENT, body={"spec": {"engine": way.engine}}, content_type=MERGE_PATCH)

    async def arrived() -> bool:
        found = await client.request("GET", ENVIRONMENT)
        pools = (await client.request("GET", path_of("tenantry.dev/v1alpha1", "Region", "", "moves")))["status"]["pools"]
        wanted = next((each["id"] for each in pools if each["name"] == way.pool), "")
        is_there = "move" not in found["status"] and found["status"]["engine"].get("pool", "") == wanted
        return is_there and is_ready(found)

    await eventually(arrived, within=WITHIN_S)
    whole, written = time.perf_counter() - began, len(person.written.kept)
    await eventually(lambda: len(person.written.kept) > written, within=WITHIN_S)
    return Moved(person.written.longest_s, whole)


async def _names(person: Person) -> list[str]:
    answer = await person.request("GET", ITEMS, headers={"Accept": "application/x-ndjson"})
    return [orjson.loads(line)["name"] for line in answer.raise_for_status().text.splitlines()]


async def _count(person: Person) -> int:
    answer = await person.request("GET", f"{BULK}?limit=1", headers={"Prefer": "count=exact"})
    return int(answer.raise_for_status().headers["Tenantry-Count"])
