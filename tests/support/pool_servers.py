"""A PostgreSQL server that asks for passwords, and the operator's part of pools on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tenantry.adapters.pools.server_databases import ServerDatabases
from tenantry.adapters.pools.server_urls import engine_database, pool_database, pool_url
from tenantry.adapters.pools.shared.catalog import Catalog
from tenantry.model.facts import Password
from tenantry.model.resource import SecretKeyRef
from tests.contract.engine_admins import AdminSecret
from tests.support.pools import POOL

PLATFORM = "secret of the platform"
SERVER = SecretKeyRef(name="pool-server", key="url")


@dataclass
class PoolServerKit:
    """root: the URL of the superuser; admin: that of a role that may create roles and databases, and nothing else."""

    root: str
    admin: str

    @property
    def url(self) -> str:
        """The URL that the pool gets."""
        return pool_url(self.admin, POOL, PLATFORM)

    def engine_url(self, id_: str) -> str:
        return engine_database(self.url, POOL, id_).url

    @property
    def databases(self) -> ServerDatabases:
        return ServerDatabases(OnServer(), ServerSecret(self.admin), PLATFORM)

    def ask(self, query: str, *values: Any) -> list[Any]:
        """The first column of what the superuser is answered."""
        with psycopg.connect(self.root, autocommit=True) as connection:
            return [row[0] for row in connection.execute(query.encode(), values).fetchall()]

    def run(self, statement: str) -> None:
        """Run a statement in the database of the pool itself."""
        with psycopg.connect(self._own, autocommit=True) as connection:
            connection.execute(statement.encode())

    @property
    def _own(self) -> str:
        (name,) = self.pools()
        return self.root.replace("/postgres", f"/{name}")

    def rows(self, *queries: str) -> list[Any]:
        """The first value of each query in the database of the pool itself."""
        with psycopg.connect(self._own, autocommit=True) as connection:
            found = [connection.execute(query.encode()).fetchone() for query in queries]
        return [row[0] for row in found if row is not None]

    @contextmanager
    def away(self) -> Iterator[None]:
        """Let the pool not reach its database for a block."""
        name = pool_database(self.url).name
        with psycopg.connect(self.root, autocommit=True) as connection:
            connection.execute(f'ALTER ROLE "{name}" NOLOGIN'.encode())
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (name,))
            try:
                yield
            finally:
                connection.execute(f'ALTER ROLE "{name}" LOGIN'.encode())

    def tables(self, database: str) -> set[str]:
        """The names of the tables in a database."""
        with psycopg.connect(self.root.replace("/postgres", f"/{database}")) as connection:
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return {name for (name,) in found}

    def names(self) -> set[str]:
        """The names of all databases and roles of engines, without those of the pool itself."""
        return {name for name in self._all() if name.count("_") > 1}

    def pools(self) -> set[str]:
        """The names of the databases and roles of pools."""
        return {name for name in self._all() if name.count("_") == 1}

    def _all(self) -> list[str]:
        found = self.ask("SELECT datname FROM pg_database UNION SELECT rolname FROM pg_roles")
        return [name for name in found if name.startswith("tenantry_")]


class ReplicasInTime:
    """Replicas of a pool, whose database is made, with one clock."""

    def __init__(self, server: PoolServerKit) -> None:
        self.clock = [1000.0]
        self.server = server
        self.catalog = Catalog(server.url)
        self.catalog.prepare()


@dataclass
class OnServer:
    """server_databases.PoolServers: each pool is on the server."""

    replicas: int = 2

    def server_of(self, pool: str) -> SecretKeyRef | None:
        return SERVER

    def replicas_of(self, pool: str) -> int:
        return self.replicas


class ServerSecret(AdminSecret):
    """ports.Secrets with the URL of the server alone."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        assert (namespace, name, key, for_kind) == ("tenantry-system", "pool-server", "url", "region")
        return Password(clear=self.url)
