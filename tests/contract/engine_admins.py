"""Every EngineAdmin that the contract runs over, each with an engine of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import httpx

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.engine.transport import EngineTransport
from tenantry.adapters.keys import KeyRing
from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import EngineEndpoint, Password, SecretFacts
from tenantry.model.resource import Ref
from tenantry.packages.check import inspect
from tenantry.ports import EngineAdmin
from tenantry.rest.outbound import Rules
from tenantry.rest.uploads import Uploads
from tests.scenario.foreign_engine import ForeignEngine
from tests.scenario.serving import serving

ADMIN_PASSWORD = Password(clear="the admin's password", fingerprint="mark")


class Row(NamedTuple):
    """extended: it takes roles, hashes and fingerprints, and lists the steps of an install. symbols: it keeps symbol files.

    on_server: it is opened with the URL of a database of its own.
    """

    open: Callable[..., AbstractAsyncContextManager[EngineAdmin]]
    extended: bool = True
    symbols: bool = True
    on_server: bool = False


class AdminSecret:
    """Secrets that hold the admin password and nothing else."""

    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        return ADMIN_PASSWORD

    def look(self, namespace: str, name: str, key: str, for_kind: str) -> SecretFacts:
        return SecretFacts("Present")

    async def ensure(self, ref: Ref, for_kind: str) -> None:
        raise NotImplementedError

    async def remove(self, ref: Ref) -> None:
        raise NotImplementedError


@asynccontextmanager
async def local(folder: Path, database_url: str | None = None) -> AsyncIterator[EngineAdmin]:
    """The engine itself."""
    engine = await Engine.open(folder / "engine", database_url=database_url)
    yield engine
    await engine.close()


@asynccontextmanager
async def over_http(
    folder: Path, endpoint: EngineEndpoint, facade_url: str, *, on_a_cluster: bool = False
) -> AsyncIterator[EngineAdmin]:
    """The client, the server and the engine; on_a_cluster: over a socket."""
    (folder / "incoming").mkdir()
    keys = KeyRing(folder / "keys", "tenantry")
    engine = await Engine.open(folder / "engine")
    await engine.set_admin_password(ADMIN_PASSWORD)
    served = Served(engine, folder / "token.jwk", endpoint.environment_id, facade_url, keys)
    app = engine_app(lambda request: served, Uploads(folder / "incoming"))
    transport = EngineTransport() if on_a_cluster else httpx.ASGITransport(app)
    async with serving(app) if on_a_cluster else nullcontext(endpoint.url) as url:
        engines = HttpEngines(
            keys,
            AdminSecret(),
            inspect,
            folder / "incoming",
            lambda url: transport,
            address_of=lambda endpoint: url,
            rules_for=lambda endpoint: Rules(http=True),
            guard=lambda rules: transport,
        )
        yield engines.at(endpoint)
        await engines.aclose()
    await engine.close()


def managed(folder: Path) -> AbstractAsyncContextManager[EngineAdmin]:
    """As the operator reaches an engine of ours."""
    return over_http(folder, EngineEndpoint("e1", "http://engine"), "http://facade")


def on_a_cluster(folder: Path) -> AbstractAsyncContextManager[EngineAdmin]:
    """As the operator of a cluster reaches one."""
    return over_http(folder, EngineEndpoint("e1", "http://engine"), "http://facade", on_a_cluster=True)


def standalone(folder: Path) -> AbstractAsyncContextManager[EngineAdmin]:
    """As the operator reaches an engine of another: by the interface of the specification alone."""
    return over_http(folder, EngineEndpoint("e1", "http://engine", Ref("Secret", "n", "s")), "")


@asynccontextmanager
async def in_a_pool(folder: Path) -> AsyncIterator[EngineAdmin]:
    """As the operator reaches an engine that shares its process with others."""
    from tests.support.pools import OTHER_SPEC, SPEC, pool_of, sent  # which takes AdminSecret from here

    async with pool_of(folder / "pool") as pool:
        for spec in (OTHER_SPEC, SPEC):
            await pool.pools.deploy(spec, await sent(url=""))
        yield pool.admin()


@asynccontextmanager
async def foreign(folder: Path) -> AsyncIterator[EngineAdmin]:
    """An engine that is none of ours, by the specification's stable channel."""
    (folder / "incoming").mkdir()
    transport = httpx.ASGITransport(ForeignEngine(ADMIN_PASSWORD.clear).http)
    engines = HttpEngines(
        KeyRing(folder / "keys", "tenantry"),
        AdminSecret(),
        inspect,
        folder / "incoming",
        rules_for=lambda endpoint: Rules(http=True),
        guard=lambda rules: transport,
    )
    yield engines.at(EngineEndpoint("e1", "http://engine", Ref("Secret", "n", "s")))
    await engines.aclose()


ENGINES = {
    "engine": Row(local),
    "engine on PostgreSQL": Row(local, on_server=True),
    "engine over HTTP": Row(managed),
    "engine over a socket": Row(on_a_cluster),
    "engine in a pool": Row(in_a_pool),
    "engine over the plain interface": Row(standalone, extended=False),
    "engine of others": Row(foreign, extended=False, symbols=False),
}
