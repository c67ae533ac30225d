"""A pool in this process, with real engines, and the operator's side of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.folders import SentFacts
from tenantry.adapters.pools.client import Pools
from tenantry.cli.processes.pools.pool_process import OpenedPool, open_pool
from tenantry.model.facts import EngineEndpoint, EngineRef, EngineSpec, Password
from tenantry.packages.check import inspect
from tenantry.ports import EngineAdmin
from tenantry.rest.auth.passwords import hash_password
from tenantry.settings import ManagedEngineSettings, Settings
from tests.contract.engine_admins import AdminSecret

POOL = "pool-0123456789ab"
URL = f"http://engine.env-{POOL}.svc:8080"
HOST = "dev--acme.apps.example.com"
REF = EngineRef("tenant-acme", "dev", "e1", "acme", "dev", "uid-acme")
SPEC = EngineSpec(REF, "eu", "Kubernetes", pool=POOL)
DECLARED = {
    "apiVersion": "tenantry.dev/v1alpha1",
    "kind": "Environment",
    "metadata": {"name": REF.name, "namespace": REF.namespace},
    "spec": {"region": "eu"},
}
MARK = f"{REF.id}@2026-01-01T00:00:00Z"
COMING = replace(SPEC, restoring=MARK)
"""Of an engine that waits for its backup."""
OTHER = EngineRef("tenant-globex", "dev", "e2", "globex", "dev", "uid-globex")
OTHER_SPEC = EngineSpec(OTHER, "eu", "Kubernetes", pool=POOL)


@dataclass
class PoolKit:
    """opened: the pool; pools: the operator's client; people: a client that names hosts as browsers do."""

    folder: Path
    keys: KeyRing
    opened: OpenedPool
    pools: Pools
    engines: HttpEngines
    people: httpx.AsyncClient

    def admin(self, ref: EngineRef = REF) -> EngineAdmin:
        return self.engines.at(EngineEndpoint(ref.id, f"{URL}/e/{ref.id}"))

    async def signs_in(self, password: str, host: str = HOST) -> int:
        form = {"username": "admin", "password": password}
        answer = await self.people.post("/api/v1/auth/token", data=form, headers={"Host": host})
        return answer.status_code


async def sent(password: str = "correct horse", url: str = f"https://{HOST}") -> SentFacts:
    hashed = await hash_password(Password(clear=password))
    return SentFacts(hashed, f"mark of {password}", url)


def opened_pool(folder: Path, keys: KeyRing, capacity: int, id_: str = POOL, server: str = "") -> OpenedPool:
    """server: the URL of the pool on its server, `""` for a pool on a volume."""
    folder.mkdir(exist_ok=True)
    jwks, url = folder / "jwks.json", folder / "url"
    url.write_text(server)
    jwks.write_text(json.dumps(keys.jwks()))
    (folder / "scratch").mkdir(exist_ok=True)
    about = {"pool": id_, "capacity": capacity, "facade_url": "https://api.example.com", "jwks": jwks}
    managed = ManagedEngineSettings(**about, database_url=url if server else None)
    return open_pool(folder / "data", Settings(managed=managed))


@asynccontextmanager
async def pool_of(folder: Path, capacity: int = 300, server: str = "", keys: KeyRing | None = None) -> AsyncIterator[PoolKit]:
    """keys: of the platform, new ones where None."""
    keys, scratch = keys or KeyRing(folder / "keys", "tenantry"), folder / "scratch"
    opened = opened_pool(folder, keys, capacity, server=server)
    transport = httpx.ASGITransport(opened.server)
    pools = Pools(keys, lambda pool: URL, lambda url: transport)
    engines = HttpEngines(keys, AdminSecret(), inspect, scratch, lambda url: transport)
    people = httpx.AsyncClient(transport=transport, base_url="http://pool")
    try:
        yield PoolKit(folder, keys, opened, pools, engines, people)
    finally:
        await people.aclose()
        await engines.aclose()
        await pools.aclose()
        await opened.close()
