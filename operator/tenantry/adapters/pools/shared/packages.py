"""The packages of a pool's engines in the pool's own database: each once, by its SHA-256, whichever engines have it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tenantry.adapters.pools.shared.catalog import PACKAGES, Catalog, put_blob, read_blob, remove_unused, require_engine
from tenantry.model.verdicts import NotFound
from tenantry.packages.check import sha256_of

_SURPLUS = "engine = %s AND NOT sha256 = ANY(%s) AND since < now() - interval '1 hour'"


class CatalogPackages:
    """package_files.PackageOrigin of one engine: it sees no package that it did not bring itself."""

    def __init__(self, catalog: Catalog, engine: str) -> None:
        self._catalog = catalog
        self._engine = engine

    def put(self, sha256: str, package: Path) -> None:
        with self._catalog.apart() as connection:
            connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (PACKAGES,))
            name = f"package/{sha256}"
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
            if connection.execute("SELECT 1 FROM blobs WHERE name = %s LIMIT 1", (name,)).fetchone() is None:
                with package.open("rb") as source:
                    put_blob(connection, name, source)
            require_engine(connection, self._engine)  # at last, for it keeps the engine's record as it is
            query = """
                INSERT INTO packages (engine, sha256) VALUES (%s, %s)
                ON CONFLICT (engine, sha256) DO UPDATE SET since = now()
            """
            connection.execute(query, (self._engine, sha256))

    def has(self, sha256: str) -> bool:
        query = "SELECT 1 FROM packages WHERE engine = %s AND sha256 = %s"
        with self._catalog.transaction() as connection:
            return connection.execute(query, (self._engine, sha256)).fetchone() is not None

    def fetch(self, sha256: str, target: Path) -> None:
        if not self.has(sha256):
            raise NotFound(f"no package with the SHA-256 {sha256}")
        with self._catalog.apart() as connection, target.open("wb") as out:
            read_blob(connection, f"package/{sha256}", out)
        if sha256_of(target) != sha256:
            raise NotFound(f"the package with the SHA-256 {sha256} is not whole in the database of the pool")

    def has_only(self, packages: Collection[str]) -> bool:
        query = f"SELECT 1 FROM packages WHERE {_SURPLUS} LIMIT 1"  # noqa: S608 - a constant
        return not self._catalog.asked(query, (self._engine, list(packages)))

    def keep_only(self, packages: Collection[str]) -> None:
        query = f"DELETE FROM packages WHERE {_SURPLUS}"  # noqa: S608 - a constant
        with self._catalog.transaction() as connection:
            if connection.execute(query, (self._engine, list(packages))).rowcount:
                remove_unused(connection)
