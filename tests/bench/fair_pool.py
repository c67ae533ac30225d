"""H3: what the users of one engine in a pool notice of the load and the attacks on another engine of it, of another tenant.

The pool is a process with its default limits; users and attacks are those of P25, as far as they reach an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import httpx

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.pools.client import Pools
from tenantry.model.facts import EngineEndpoint, EngineRef, EngineSpec, Password
from tenantry.packages.check import inspect
from tests.bench.fairness import (
    MANIFEST,
    NOTHING,
    PASSWORD,
    RATIO,
    ROWS,
    Attack,
    Request,
    Tenant,
    attacks,
    compared,
    packed,
    row_of,
)
from tests.bench.pooled import POOL, PoolSite
from tests.bench.row import Row, Scale
from tests.contract.engine_admins import AdminSecret
from tests.support.pools import sent

TENANTS = ("attacker", "neighbour")
ADMIN = "correct horse"
PLAIN = ("reads", "writes", "sign-ins", "installs")
LITTLE = 1.2
"""The greatest ratio under plain loads; under attacks it is that of P25."""
OF_PLATFORM = frozenset({"plans", "large plans", "uploads", "SSE", "dry runs", "manifests"})
"""Attacks that reach no engine."""
VERSIONS = 200
"""Of an app that is installed again and again, each with one column more."""


@dataclass(frozen=True)
class PooledTenant(Tenant):
    """environment: the id of its engine."""

    @property
    def engine(self) -> str:
        return f"/e/{self.environment}"

    @property
    def of_engine(self) -> Mapping[str, Request]:
        """The requests of its users that reach its engine."""
        return {name: request for name, request in self.users().items() if name in ("data GET", "sign-in")}


def measure(scale: Scale) -> Sequence[Row]:
    """A row for each load or attack."""
    folder = scale.folder / "h3"
    folder.mkdir()
    site = PoolSite(folder, KeyRing(folder / "keys", "tenantry"))
    with site.running() as pool:
        token = site.keys.sign({"sub": "operator", "aud": "engine:id-0"}, timedelta(hours=2))
        attacker, neighbour = asyncio.run(_furnished(site, pool.base, scale.of(ROWS)))
        every = (attacker.port, loads(attacker, token))
        quiet, under = compared(scale, pool.process, (neighbour.port, neighbour.of_engine), every)
    bounds = {name: LITTLE if name in PLAIN else RATIO for name in under}
    return [row_of(f"{name} in a pool", quiet, taken, "H3", bounds[name]) for name, taken in under.items()]


def loads(by: PooledTenant, platform: str) -> dict[str, Attack]:
    """Return the plain loads, and the attacks of P25 that reach an engine. platform: its token for the engine."""
    plain = {NOTHING: Attack(), "reads": Attack([by.users()["data GET"]], 16), "installs": Attack(_installs(by, platform), 1)}
    return {**{name: each for name, each in attacks(by, 1).items() if name not in OF_PLATFORM}, **plain}


def _installs(by: PooledTenant, platform: str) -> list[Request]:
    headers = {"Authorization": f"Bearer {platform}", "Content-Type": "multipart/form-data; boundary=x"}
    before, after = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.tapp"\r\n\r\n', "\r\n--x--\r\n"
    publish = {"method": "POST", "path": f"{by.engine}/api/v1/admin/apps/publish", "headers": headers}
    return [publish | {"latin": f"{before}{package_of(number).decode('latin-1')}{after}"} for number in range(VERSIONS)]


def package_of(version: int) -> bytes:
    """Return a package of an app that has one column more in each version."""
    columns = "".join(f", {{name: column_{number}, type: text}}" for number in range(version))
    told = f"apiVersion: tenantry.dev/app/v1\nid: grown\nname: Grown\nversion: 1.0.{version}\ntables:\n"
    return packed(f"{told}  - {{name: rows, primaryKey: [id], columns: [{{name: id, type: integer}}{columns}]}}\n")


async def _furnished(site: PoolSite, url: str, rows: int) -> tuple[PooledTenant, PooledTenant]:
    """Two tenants, each with an engine of the pool that has an app, a user and rows."""
    pools, package = Pools(site.keys, lambda pool: url), site.folder / "crm.tapp"
    engines = HttpEngines(site.keys, AdminSecret(), inspect, site.folder)
    package.write_bytes(packed(MANIFEST))
    made = []
    for number, name in enumerate(TENANTS):
        ref = EngineRef(f"tenant-{name}", "dev", f"id-{number}", name, "dev", f"uid-{name}")
        await pools.deploy(EngineSpec(ref, "eu", "Kubernetes", pool=POOL), await sent(ADMIN, ""))
        admin = engines.at(EngineEndpoint(ref.id, f"{url}/e/{ref.id}"))
        await admin.publish(package)
        await admin.add_identity("ed", Password(clear=PASSWORD), (("crm", "editor"),))
        made.append(await asyncio.to_thread(_filled, name, ref.id, url, rows))
    await engines.aclose()
    await pools.aclose()
    return made[0], made[1]


def _filled(name: str, id_: str, url: str, rows: int) -> PooledTenant:
    with httpx.Client(base_url=url, timeout=120) as client:
        answer = client.post(f"/e/{id_}/api/v1/auth/token", data={"username": "ed", "password": PASSWORD})
        tenant = PooledTenant(httpx.URL(url).port or 0, name, "", id_, answer.raise_for_status().json()["access_token"], "")
        for start in range(0, rows, 1000):
            some = [{"note": f"{number} " + "abcdefghijklmnop" * 8} for number in range(start, min(rows, start + 1000))]
            client.post(tenant.data, headers=tenant.signed_in, json=some).raise_for_status()
    return tenant
