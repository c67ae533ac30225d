"""One engine in this process: alone, or as the pod of an environment that a platform manages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.types import ASGIApp, Scope

from tenantry.adapters.admin_password import AdminPassword
from tenantry.adapters.database_url import mounted
from tenantry.adapters.keys import MountedKeys
from tenantry.adapters.local.half_restored import refuse_half_restored
from tenantry.adapters.local.signing import KEY_FILE as ARCHIVE_KEY
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.adapters.moving.coming import is_awaited
from tenantry.adapters.moving.leaving import LeavingEngine
from tenantry.adapters.moving.source import MovableEngine
from tenantry.adapters.store.secrets import HASH_PREFIX
from tenantry.adapters.store.state_folder import FolderLock, password_file
from tenantry.bootstrap.outward import limits_of, verifier
from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.output.failing import say
from tenantry.cli.output.logs import announce, configure, include_libraries
from tenantry.cli.processes.engine_metrics import engine_metrics_served, held_below
from tenantry.cli.processes.freed_memory import freed_memory_returned
from tenantry.cli.processes.serving import address_of, serving
from tenantry.cli.processes.signals import signalled
from tenantry.cli.processes.tracing import traced
from tenantry.engine.access import Served
from tenantry.engine.logical.session import is_postgresql
from tenantry.engine.quota import EngineQuota, Limits
from tenantry.engine.sealing import Sealing
from tenantry.engine.server import EngineServer, engine_app
from tenantry.engine.service import Engine
from tenantry.engine.sql.moving import is_moving
from tenantry.model.facts import EngineRef, Password
from tenantry.model.measures import EngineHoldings, RequestMeasures
from tenantry.rest.answers import LateAnswer, ReadyAnswer
from tenantry.rest.uploads import Uploads
from tenantry.settings import ManagedEngineSettings, OutboundSettings, Settings

KEY_FILE = "token-key.jwk"
INCOMING = "incoming"


async def serve_engine(data: Path, listen: str, database: str | None, settings: Settings, log_format: LogFormat) -> None:
    """Serves the engine of that folder until a signal comes. Raises Failure, Halt, OSError."""
    host, port = address_of(listen)
    managed = settings.managed
    url = database or await asyncio.to_thread(database_of, managed)
    is_postgresql(url)  # raises Invalid before anything is made
    about = environment_of(managed).about if managed.uid else {}
    configure(say, log_format, about=about)
    include_libraries(say, log_format, about)
    lock = await asyncio.to_thread(FolderLock, data)
    await asyncio.to_thread(refuse_half_restored, data)
    bound = listening(host, port)
    process = EngineProcess(data, url, settings)
    try:
        app = await process.application()
        with freed_memory_returned(), traced("tenantry-engine"):
            async with (
                engine_metrics_served(settings.metrics, process.requests, process.holdings),
                serving(app, bound, settings.http, process.answer_now),
            ):
                announce(url_of(bound), log_format, about)
                await signalled()
    finally:
        await process.close()
        lock.release()


class EngineProcess:
    """The engine of this process: open from the start on, or from when it has come out of another place.

    url: of its database on a server, None for SQLite.
    """

    def __init__(self, data: Path, url: str | None, settings: Settings) -> None:
        self.requests = RequestMeasures()
        self._data = data
        self._url = url
        self._settings = settings
        self._engine: Engine | None = None
        self._app: EngineServer | None = None
        self._keys: MountedKeys | None = None
        """The platform's, for an engine that it manages."""

    async def application(self) -> ASGIApp:
        """Return the application of this process. Raises Halt, OSError, ValueError."""
        managed = self._settings.managed
        if not managed.uid:
            return await self.open()
        self._keys = keys = await asyncio.to_thread(MountedKeys, managed.jwks, managed.issuer)
        return await coming(self._data, environment_of(managed), managed.jwks.parent, keys, self.open) or await self.open()

    async def open(self) -> ASGIApp:
        """Open the engine, and return its application. Raises Halt, OSError, ValueError."""
        await self.close()  # what an earlier try has opened
        settings, managed = self._settings, self._settings.managed
        allowed = Limits(managed.database_limit, managed.request_limit)
        quota = EngineQuota(lambda: allowed)
        limits = limits_of(settings.packages)
        engine = await Engine.open(self._data, database_url=self._url, limits=limits, owner=managed.uid, quota=quota)
        self._engine = engine
        public_url = settings.public_url.rstrip("/")
        served = await (
            _managed(engine, self._data, settings, self._keys, public_url)
            if self._keys is not None
            else _alone(engine, self._data, settings.outbound, public_url)
        )
        served.quota = quota
        uploads = Uploads(await asyncio.to_thread(_incoming, self._data), settings.packages.size)
        self._app = engine_app(lambda request: served, uploads, self.requests)
        return self._app if self._keys is None else _movable(self._app, self._data, managed.uid, self._keys)

    def answer_now(self, scope: Scope) -> ReadyAnswer | LateAnswer | None:
        """As AnswerNow: None also while the engine is not here."""
        return self._app.answer_now(scope) if self._app is not None else None

    async def holdings(self) -> EngineHoldings:
        """Return what the engine holds on disk and on its server."""
        found = await asyncio.to_thread(held_below, self._data)
        on_server = await self._engine.server_bytes() if self._engine is not None else 0
        return found._replace(sizes={**found.sizes, "database": on_server}) if on_server else found

    async def close(self) -> None:
        """Let the database go."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()


async def coming(
    data: Path, ref: EngineRef, keys_folder: Path, keys: MountedKeys, serve: Callable[[], Awaitable[ASGIApp]]
) -> ASGIApp | None:
    """Return the application of a pod into which an engine comes, None if none comes. Raises OSError."""
    if not await asyncio.to_thread(is_awaited, data, keys_folder):
        return None
    # With the archives, which an engine starts without.
    from tenantry.adapters.moving.arriving import Arrival, ComingEngine

    return ComingEngine(await asyncio.to_thread(Arrival, data, ref), ref.id, keys, serve)


def _movable(app: ASGIApp, data: Path, id_: str, keys: MountedKeys) -> ASGIApp:
    """The engine of an environment can move to another place."""
    return MovableEngine(app, LeavingEngine(data, data / INCOMING, ArchiveKey(data / ARCHIVE_KEY)), id_, keys)


async def _alone(engine: Engine, data: Path, outbound: OutboundSettings, public_url: str) -> Served:
    await engine.set_admin_password(await asyncio.to_thread(lambda: _password(data, password_file(data))))
    return Served(engine, data / KEY_FILE, foreign=verifier(outbound), public_url=public_url)


async def _managed(engine: Engine, data: Path, settings: Settings, keys: MountedKeys, public_url: str) -> Served:
    managed = settings.managed

    async def declared() -> Password | None:
        try:
            return await asyncio.to_thread(lambda: _password(data, managed.admin_password.read_text().strip()))
        except FileNotFoundError:
            return None

    admin = AdminPassword(engine, declared)
    if not await asyncio.to_thread(is_moving, data):  # else the next sign-in takes it over
        await admin.refresh()
    return Served(
        engine,
        data / KEY_FILE,
        managed.uid,
        managed.facade_url,
        keys,
        admin.refresh,
        verifier(settings.outbound),
        public_url=managed.public_url or public_url,
    )


def _password(data: Path, text: str) -> Password:
    fingerprint = Sealing(data).fingerprint(text)
    if text.startswith(HASH_PREFIX):
        return Password(hash=text, fingerprint=fingerprint)
    return Password(clear=text, fingerprint=fingerprint)


def environment_of(managed: ManagedEngineSettings) -> EngineRef:
    """Return the environment of a managed engine, as log lines name it."""
    return EngineRef(managed.namespace, managed.name, managed.uid, tenant=managed.tenant)


def database_of(managed: ManagedEngineSettings) -> str | None:
    """The URL that the platform gives to its engine, None for SQLite. Blocks. Raises OSError."""
    return mounted(managed.database_url)


def _incoming(data: Path) -> Path:
    folder = data / INCOMING
    folder.mkdir(mode=0o700, exist_ok=True)
    for left in folder.iterdir():
        left.unlink()
    return folder
