"""One replica of a pool on a server, opened: its folder is filled from the databases there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tenantry.adapters.pools.databases import PoolDatabases
from tenantry.adapters.pools.declarations import SentDeclarations
from tenantry.adapters.pools.shared.backups import SharedBackups
from tenantry.adapters.pools.shared.catalog import Catalog
from tenantry.adapters.pools.shared.folders import SharedFolders
from tenantry.adapters.pools.shared.packages import CatalogPackages


@dataclass(frozen=True)
class SharedParts:
    """The parts of a pool that differ from those of one on a volume."""

    catalog: Catalog
    folders: SharedFolders
    databases: PoolDatabases
    backups: SharedBackups

    def packages_of(self, id_: str) -> CatalogPackages:
        """Return the packages of the engine with that id."""
        return CatalogPackages(self.catalog, id_)


def open_shared(data: Path, url: str, pool: str, declared: SentDeclarations, keep: timedelta, *, keys: bool) -> SharedParts:
    """Open what the replicas of a pool share. url: of the pool's own database; keys, keep: as Backups has them.

    Blocks. Raises Halt, OSError.
    """
    catalog = Catalog(url)
    catalog.prepare()
    folders, databases = SharedFolders(data, catalog), PoolDatabases(url, pool)
    backups = SharedBackups(data, catalog, folders, declared, keep, databases, keys=keys)
    return SharedParts(catalog, folders, databases, backups)
