"""One engine in this process: alone, or as the pod of an environment that a platform manages."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.types import ASGIApp

from tenantry.adapters.admin_password import AdminPassword
from tenantry.adapters.keys import MountedKeys
from tenantry.adapters.local.half_restored import refuse_half_restored
from tenantry.adapters.local.signing import KEY_FILE as ARCHIVE_KEY
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.adapters.moving.leaving import LeavingEngine
from tenantry.adapters.moving.source import MovableEngine
from tenantry.adapters.store.secrets import HASH_PREFIX
from tenantry.adapters.store.state_folder import FolderLock, password_file
from tenantry.bootstrap.outward import limits_of, verifier
from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.output.failing import say
from tenantry.cli.output.logs import announce, configure, include_libraries
from tenantry.cli.processes.engine_metrics import Count, engine_metrics_served, held_below
from tenantry.cli.processes.freed_memory import freed_memory_returned
from tenantry.cli.processes.serving import address_of, serving
from tenantry.cli.processes.signals import signalled
from tenantry.cli.processes.tracing import traced
from tenantry.engine.access import Served
from tenantry.engine.logical.session import is_postgresql
from tenantry.engine.quota import EngineQuota, Limits
from tenantry.engine.sealing import Sealing
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import EngineRef, Password
from tenantry.model.measures import EngineHoldings, RequestMeasures
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
    public_url = settings.public_url.rstrip("/")
    limits = limits_of(settings.packages)
    allowed = Limits(managed.database_limit, managed.request_limit)
    quota = EngineQuota(lambda: allowed)
    engine = await Engine.open(data, database_url=url, limits=limits, owner=managed.uid, quota=quota)
    try:
        outbound = settings.outbound
        served = await (
            _managed(engine, data, managed, outbound, public_url) if managed.uid else _alone(engine, data, outbound, public_url)
        )
        served.quota = quota
        uploads = Uploads(await asyncio.to_thread(_incoming, data), settings.packages.size)
        requests = RequestMeasures()
        app = engine_app(lambda request: served, uploads, requests)
        with freed_memory_returned(), traced("tenantry-engine"):
            async with (
                engine_metrics_served(settings.metrics, requests, _counting(engine, data)),
                serving(_movable(app, data, managed), bound, settings.http, app.answer_now),
            ):
                announce(url_of(bound), log_format, about)
                await signalled()
    finally:
        await engine.close()
        lock.release()


def _movable(app: ASGIApp, data: Path, managed: ManagedEngineSettings) -> ASGIApp:
    """The engine of an environment can move to another place."""
    if not managed.uid:
        return app
    leaving = LeavingEngine(data, data / INCOMING, ArchiveKey(data / ARCHIVE_KEY))
    return MovableEngine(app, leaving, managed.uid, MountedKeys(managed.jwks, managed.issuer))


def _counting(engine: Engine, data: Path) -> Count:
    async def count() -> EngineHoldings:
        found = await asyncio.to_thread(held_below, data)
        on_server = await engine.server_bytes()
        return found._replace(sizes={**found.sizes, "database": on_server}) if on_server else found

    return count


async def _alone(engine: Engine, data: Path, outbound: OutboundSettings, public_url: str) -> Served:
    await engine.set_admin_password(await asyncio.to_thread(lambda: _password(data, password_file(data))))
    return Served(engine, data / KEY_FILE, foreign=verifier(outbound), public_url=public_url)


async def _managed(
    engine: Engine, data: Path, managed: ManagedEngineSettings, outbound: OutboundSettings, public_url: str
) -> Served:
    async def declared() -> Password | None:
        try:
            return await asyncio.to_thread(lambda: _password(data, managed.admin_password.read_text().strip()))
        except FileNotFoundError:
            return None

    admin = AdminPassword(engine, declared)
    await admin.refresh()
    keys = await asyncio.to_thread(MountedKeys, managed.jwks, managed.issuer)
    return Served(
        engine,
        data / KEY_FILE,
        managed.uid,
        managed.facade_url,
        keys,
        admin.refresh,
        verifier(outbound),
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
    return managed.database_url.read_text().strip() if managed.database_url else None


def _incoming(data: Path) -> Path:
    folder = data / INCOMING
    folder.mkdir(mode=0o700, exist_ok=True)
    for left in folder.iterdir():
        left.unlink()
    return folder
