"""Two tenants with the same app in one pool, behind a real server: acme's engine, and globex's beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tenantry.engine.service import Engine
from tenantry.model.facts import EngineRef, IdentityProviderSettings, Password
from tenantry.packages.build import build
from tests.scenario.data_world import DATA, HASHED, MANIFEST, PASSWORD, signed_in
from tests.scenario.serving import serving
from tests.support.pool_servers import PoolServerKit
from tests.support.pools import OTHER, OTHER_SPEC, REF, SPEC, PoolKit, pool_of, sent

CANARY = "canary7q"
PUBLIC = "Globex sign-in"
"""The name of a provider, which everybody may read at the host of globex."""
HOSTS = {REF.id: "dev--acme.apps.example.com", OTHER.id: "dev--globex.apps.example.com"}
ROLES = (("ed", "editor"), ("rea", "reader"), ("wri", "writer"), ("none", ""))


@dataclass
class PooledTenants:
    """url: of the server; the engines are at `/e/<id>` for the operator, and at their hosts for people."""

    kit: PoolKit
    url: str

    def base(self, ref: EngineRef = REF) -> str:
        return f"{self.url}/e/{ref.id}"

    async def engine(self, ref: EngineRef = REF) -> Engine:
        """The open engine itself."""
        async with httpx.AsyncClient(base_url=self.base(ref)) as client:
            await client.get("/api/v1/auth/providers")
        found = self.kit.opened.hosting._leases[ref.id].engine.served.engine
        assert isinstance(found, Engine)
        return found


@asynccontextmanager
async def tenants_in_a_pool(
    folder: Path, manifest: str = MANIFEST, server: PoolServerKit | None = None
) -> AsyncIterator[PooledTenants]:
    """With the identities of `engine_with_app` in both. Globex has a row and a user whose names hold the canary, and a
    provider; the row is the only one at the end, too. server: where their databases are, None for the volume of the pool."""
    source = folder / "source"
    source.mkdir()
    (source / "app.yaml").write_text(manifest)
    package = folder / "crm.tapp"
    build(source, package)
    on_server = server.url if server is not None else ""
    async with pool_of(folder / "pool", server=on_server) as kit, serving(kit.opened.server) as url:
        for spec in (SPEC, OTHER_SPEC):
            if server is not None:
                await server.databases.ensure(spec.pool, spec.ref)
            await kit.pools.deploy(spec, await sent(PASSWORD, url=""))
            await kit.admin(spec.ref).publish(package)
            for username, role in ROLES:
                await kit.admin(spec.ref).add_identity(username, HASHED, [("crm", role)] if role else [])
        tenants = PooledTenants(kit, url)
        await kit.admin(OTHER).add_identity(f"{CANARY}-ann", HASHED, [])
        provider = IdentityProviderSettings(PUBLIC, "https://issuer.example", "client")
        await kit.admin(OTHER).add_identity_provider(provider, Password(clear="secret"))
        async with signed_in(tenants.base(OTHER), "ed") as ed:
            made = (await ed.post(f"{DATA}/accounts", json={"name": CANARY})).status_code if manifest == MANIFEST else 0
            yield tenants
            rows = (await ed.get(f"{DATA}/accounts")).json() if made == 201 else []
        assert made == 0 or [row["name"] for row in rows] == [CANARY], rows
