"""The databases of a pool's engines on the pool's server, as the process of the pool finds them."""

from __future__ import annotations

import hashlib

from tenantry.adapters.local.databases import Databases
from tenantry.adapters.pools.declarations import NoSecrets
from tenantry.adapters.pools.server_urls import engine_database
from tenantry.model.facts import EngineSpec


class PoolDatabases(Databases):
    """Each engine has the database that the operator made for it. url: of the pool; pool: its id."""

    kept_by_owner = False

    def __init__(self, url: str, pool: str) -> None:
        super().__init__(NoSecrets())
        self.reach = None  # an operator chose the server; it may be in the cluster
        self._url = url
        self._pool = pool

    def mark(self, spec: EngineSpec) -> str:
        """Return a mark that differs between two URLs."""
        return hashlib.sha256(self.of(spec.ref.id).encode()).hexdigest()[:16]

    async def url(self, spec: EngineSpec) -> str | None:
        """Return the URL."""
        return self.of(spec.ref.id)

    async def pinned(self, spec: EngineSpec) -> str | None:
        """Return the same."""
        return self.of(spec.ref.id)

    def of(self, id_: str) -> str:
        """Return the URL of the engine with that id."""
        return engine_database(self._url, self._pool, id_).url
