"""P22: what an environment adds to the API server, in a pool and in a pod of its own: writes until it is Ready, and objects.

The pool is a real process, and the operator reaches it as its proxy. Pods of engines are played, so there is none of what a
cluster's controllers add to each namespace and pod: the pod, its PersistentVolume, a revision, endpoints, a ServiceAccount and
a ConfigMap.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.workload import NAME, namespace_of
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.hosts.standalone import listed
from tenantry.model.verdicts import NotFound
from tests.bench.cluster.declaring import is_ready
from tests.bench.cluster.place import CLIENTS, Counts, Place, client_of, object_, place, play, quiet, requests_of, written
from tests.bench.row import Row, Scale
from tests.bench.rows.server import started
from tests.cluster.running import token
from tests.support.ports import free_port
from tests.support.waiting import eventually

ENVIRONMENTS = 50
LIMIT = 6.0
AIM = 5
WITHIN_S = 300.0
REGION, TENANT = "pooled", "acme"
SPACE = f"tenant-{TENANT}"
PLACEMENTS = ("Pooled", "Dedicated")
ASLEEP = "Asleep"
BY_REST = "Created by REST"
ALWAYS = [{"start": "00:00", "end": "00:00"}]
"""A schedule that is all of each day."""
PUBLISHED = {"subdomain": "eu.example.com", "kubernetes": {"ingressClassName": "nginx"}}
KINDS = (
    ("v1", "Namespace"), ("v1", "ServiceAccount"), ("v1", "ResourceQuota"), ("v1", "LimitRange"), ("v1", "Secret"),
    ("v1", "ConfigMap"), ("v1", "PersistentVolumeClaim"), ("v1", "Service"), ("networking.k8s.io/v1", "NetworkPolicy"),
    ("networking.k8s.io/v1", "Ingress"), ("apps/v1", "StatefulSet"), ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"), ("tenantry.dev/v1alpha1", "Environment"),
    ("tenantry.dev/v1alpha1", "Operation"),
)  # fmt: skip


@dataclass(frozen=True)
class Added:
    """Writes and objects that one environment adds, by resource and by kind. Events are not among them."""

    writes: dict[str, float]
    objects: dict[str, float]

    @property
    def all_writes(self) -> float:
        return sum(self.writes.values())

    @property
    def all_objects(self) -> float:
        return sum(self.objects.values())


def measure(scale: Scale) -> Sequence[Row]:
    """The writes of a pooled environment against the limit, in a Region without hosts, and with an Ingress for each engine: there
    also by REST."""
    count = scale.of(ENVIRONMENTS)
    plain = added(scale.folder / "p22", count)
    hosts = added(scale.folder / "p22-hosts", count, published=True)
    with_host = "the same with an Ingress"
    return (
        _row(f"API writes of an environment in a pool, of {count}", *(plain[each] for each in PLACEMENTS)),
        _row(with_host, *(hosts[each] for each in PLACEMENTS)),
        _row(f"{with_host}, created by REST", hosts[BY_REST]),
    )


def _row(work: str, pooled: Added, own: Added | None = None) -> Row:
    ratio = pooled.all_writes / LIMIT
    beside = {"aim": f"{AIM}", "objects": f"{pooled.all_objects:.1f}"}
    if own is not None:
        beside |= {"in a pod of its own": f"{own.all_writes:.1f}", "its objects": f"{own.all_objects:.1f}"}
    beside |= {"they are": told(pooled.writes)}
    figures = (f"{pooled.all_writes:.1f}", f"{LIMIT:g}")
    return Row("P22", work, f"{LIMIT:g} writes", ratio, (ratio, ratio), "lower", 1.0, figures, beside)


def told(parts: dict[str, float]) -> str:
    """Name the parts that every environment has, the largest first."""
    return ", ".join(f"{name} {each:.1f}" for name, each in sorted(parts.items(), key=lambda part: -part[1]) if each >= 0.05)


def added(folder: Path, count: int, *, published: bool = False) -> dict[str, Added]:
    """By placement, from so many environments each; under ASLEEP from the sleep of a dedicated one, under BY_REST of pooled ones.

    published: in a Region that gives each engine a host.
    """
    port = free_port()
    with place(folder) as at:
        at.platform.proxy = f"http://127.0.0.1:{port}"
        return asyncio.run(_added(at, count, port, PUBLISHED if published else {}))


async def _added(at: Place, count: int, port: int, region: dict[str, Any]) -> dict[str, Added]:
    async with client_of(at.admin) as admin:
        playing = asyncio.create_task(play(admin))
        store = KubernetesStore(admin)
        await store.create(object_("Region", REGION, engine={"pools": [{"name": "small"}]}, **region))
        await store.create(object_("Tenant", TENANT, displayName="Acme"))
        with at.platform.leader() as leader:
            pool = await eventually(lambda: _pool(admin), within=WITHIN_S)
            with started(_command(at.plane.folder, port), f"http://127.0.0.1:{port}/readyz", at.plane.folder / "pool.log",
                         **await _settings(admin, at.plane.folder, pool)):  # fmt: skip
                await eventually(lambda: _all_ready(admin, "Region", "Tenant"), within=WITHIN_S)
                pid = leader.process.pid
                found = {each: await _of(at, admin, pid, each, count) for each in PLACEMENTS}
                found[ASLEEP] = await _of_sleep(at, admin, pid, count)
                found[BY_REST] = await _by_rest(at, admin, pid, count)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        return found


async def _of(at: Place, admin: Client, pid: int, placement: str, count: int) -> Added:
    """Declare so many environments, and wait until they are Ready and the operator rests."""
    store = KubernetesStore(admin)

    async def declare(name: str) -> None:
        await store.create(object_("Environment", name, SPACE, region=REGION, engine={"placement": placement}))

    names = [f"{placement.lower()}-{number}" for number in range(count)]
    return await _adding(at, admin, pid, names, declare, lambda: _all_ready(admin, "Environment"))


async def _by_rest(at: Place, admin: Client, pid: int, count: int) -> Added:
    """Create environments over the facade, which queues the Operation of each."""
    with at.platform.api() as url:
        headers = {"Authorization": f"Bearer {token(url, at.platform.kube)}"}
        async with aiohttp.ClientSession(url, headers=headers) as facade:
            async with facade.get("/api/v1/tenants") as answer:
                (tenant,) = (each["id"] for each in orjson.loads(await answer.read()) if each["slug"] == TENANT)

            async def declare(name: str) -> None:
                body = {"name": name, "slug": name, "region": REGION}
                async with facade.post(f"/api/v1/environments?tenantId={tenant}", json=body) as answer:
                    assert answer.status == 202, await answer.text()

            names = [f"posted-{number}" for number in range(count)]
            return await _adding(at, admin, pid, names, declare, lambda: _all_ready(admin, "Environment"))


async def _of_sleep(at: Place, admin: Client, pid: int, count: int) -> Added:
    """Let the dedicated ones sleep, and wait until all do."""

    async def declare(name: str) -> None:
        path = path_of("tenantry.dev/v1alpha1", "Environment", SPACE, name)
        await admin.request("PATCH", path, body={"spec": {"hibernation": {"schedule": ALWAYS}}}, content_type=MERGE_PATCH)

    async def asleep() -> bool:
        found, _ = await listed(KubernetesFeed(admin), "Environment")
        states = [(each["status"].get("engine") or {}).get("status") for each in found]
        return states.count("SLEEPING") == count

    return await _adding(at, admin, pid, [f"dedicated-{number}" for number in range(count)], declare, asleep)


async def _adding(
    at: Place,
    admin: Client,
    pid: int,
    names: Sequence[str],
    declare: Callable[[str], Awaitable[None]],
    done: Callable[[], Awaitable[bool]],
) -> Added:
    await quiet(pid)
    writes, objects, count = await requests_of(at.plane), await _objects(admin), len(names)
    places = asyncio.Semaphore(CLIENTS)

    async def in_turn(name: str) -> None:
        async with places:
            await declare(name)

    await asyncio.gather(*map(in_turn, names))
    await eventually(done, within=WITHIN_S)
    await quiet(pid)
    counted = _of_environments(written(writes, await requests_of(at.plane)))
    more = await _objects(admin) - objects
    return Added(
        {resource: each / count for resource, each in counted.items()}, {kind: each / count for kind, each in more.items()}
    )


def _of_environments(counted: Counts) -> Counter[str]:
    """By resource, without events and the Region's count of environments, as in P3."""
    by_resource: Counter[str] = Counter()
    for (verb, resource), count in counted.items():
        if resource not in ("events", "regions/status"):
            by_resource[f"{verb} {resource}"] += count
    return by_resource


async def _objects(client: Client) -> Counter[str]:
    found: Counter[str] = Counter()
    for api_version, kind in KINDS:
        found[kind] = len((await client.request("GET", path_of(api_version, kind)))["items"])
    return found


async def _pool(client: Client) -> str:
    region = await client.request("GET", path_of("tenantry.dev/v1alpha1", "Region", "", REGION))
    pools = (region.get("status") or {}).get("pools") or [{"id": ""}]
    return str(pools[0]["id"])


async def _settings(client: Client, folder: Path, pool: str) -> dict[str, Any]:
    """The settings of the pool's pod, and the file that it mounts."""

    async def keys() -> dict[str, str]:
        with suppress(NotFound):
            found = await client.request("GET", path_of("v1", "ConfigMap", namespace_of(pool), NAME))
            return dict(found["data"])
        return {}

    (jwks,) = (await eventually(keys, within=WITHIN_S)).values()
    (folder / "jwks.json").write_text(jwks)
    about = {"POOL": pool, "FACADE_URL": "http://api", "JWKS": str(folder / "jwks.json")}
    return {f"TENANTRY_MANAGED__{name}": value for name, value in about.items()}


def _command(folder: Path, port: int) -> Sequence[str]:
    return (sys.executable, "-m", "tenantry.cli.main", "pool", "--data", f"{folder}/pool", "--listen", f"127.0.0.1:{port}")


async def _all_ready(client: Client, *kinds: str) -> bool:
    feed = KubernetesFeed(client)
    for kind in kinds:
        if not all(map(is_ready, (await listed(feed, kind))[0])):
            return False
    return True
