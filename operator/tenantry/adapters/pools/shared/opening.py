"""One replica of a pool on a server, opened: its folder is filled from the databases there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tenantry.adapters.pools.databases import PoolDatabases
from tenantry.adapters.pools.declarations import SentDeclarations
from tenantry.adapters.pools.server_urls import pool_key
from tenantry.adapters.pools.shared.asked_rates import AskedRates
from tenantry.adapters.pools.shared.backups import SharedBackups
from tenantry.adapters.pools.shared.catalog import Catalog
from tenantry.adapters.pools.shared.failures import SharedCounts
from tenantry.adapters.pools.shared.folders import SharedFolders
from tenantry.adapters.pools.shared.guesses import GuessTable
from tenantry.adapters.pools.shared.packages import CatalogPackages
from tenantry.adapters.pools.shared.request_rates import SharedRates
from tenantry.rest.auth.throttle import Throttle


@dataclass(frozen=True)
class SharedParts:
    """The parts of a pool that differ from those of one on a volume.

    counts: of failed sign-ins, for the throttle; rates: of requests, for the limits of engines.
    """

    catalog: Catalog
    folders: SharedFolders
    databases: PoolDatabases
    backups: SharedBackups
    counts: SharedCounts
    throttle: Throttle
    rates: SharedRates

    def packages_of(self, id_: str) -> CatalogPackages:
        """Return the packages of the engine with that id."""
        return CatalogPackages(self.catalog, id_)

    async def close(self) -> None:
        """Let the connections go."""
        await self.counts.close()
        await self.rates.close()
        await asyncio.to_thread(self.catalog.close)


def open_shared(data: Path, url: str, pool: str, declared: SentDeclarations, keep: timedelta, *, keys: bool) -> SharedParts:
    """Open what the replicas of a pool share. url: of the pool's own database; keys, keep: as Backups has them.

    Blocks. Raises Halt, OSError.
    """
    catalog = Catalog(url)
    catalog.prepare()
    folders, databases = SharedFolders(data, catalog), PoolDatabases(url, pool)
    backups = SharedBackups(data, catalog, folders, declared, keep, databases, keys=keys)
    counts = SharedCounts(GuessTable(url))
    throttle, rates = Throttle(counts, pool_key(url, "sign-ins")), SharedRates(AskedRates(url))
    return SharedParts(catalog, folders, databases, backups, counts, throttle, rates)
