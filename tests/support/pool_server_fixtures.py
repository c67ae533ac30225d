"""Fixtures of a server for pools. What they need is imported by who asks for them: each worker imports this module."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from tenantry.model.facts import EngineRef
from tests.scenario.postgres import running

if TYPE_CHECKING:
    from tests.support.pool_servers import PoolServerKit


@pytest.fixture(scope="session")
def running_pool_server() -> Iterator[PoolServerKit]:
    with running_server_of_pools() as server:
        yield server


@contextmanager
def running_server_of_pools() -> Iterator[PoolServerKit]:
    """A new server for a block."""
    with running(passwords=True) as address:
        yield server_of_pools(address)


def server_of_pools(address: str) -> PoolServerKit:
    """A running server that asks for passwords, with the role that makes databases. address: without a database's name."""
    from tests.support.pool_servers import PoolServerKit

    root, password = f"postgresql://{address}/postgres", secrets.token_hex(8)
    with psycopg.connect(root, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE pool_admin LOGIN CREATEDB CREATEROLE PASSWORD '{password}'".encode())
    return PoolServerKit(root, f"postgresql://pool_admin:{password}@{address.partition('@')[2]}/postgres")


@pytest.fixture
def pool_server(running_pool_server: PoolServerKit) -> Iterator[PoolServerKit]:
    """The same with the database of the pool POOL, and without an engine, before and after the test."""
    from tests.support.pools import POOL

    making = running_pool_server.databases.ensure_pool(EngineRef("", "eu", POOL, slug="small"))
    with ThreadPoolExecutor(1) as beside:  # an asynchronous fixture may have asked for this one
        beside.submit(asyncio.run, making).result()
    yield running_pool_server
    for name in sorted(running_pool_server.names() | running_pool_server.pools()):
        with psycopg.connect(running_pool_server.root, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
            connection.execute(f'DROP ROLE IF EXISTS "{name}"'.encode())


@pytest.fixture
def server_of(request: pytest.FixtureRequest) -> Callable[..., PoolServerKit | None]:
    """Returns the server of pools if any of the places that it is given is on one."""
    from tests.support.moving import ON_SERVER

    def found(*places: str) -> PoolServerKit | None:
        kit: PoolServerKit | None = request.getfixturevalue("pool_server") if set(places) & set(ON_SERVER) else None
        return kit

    return found
