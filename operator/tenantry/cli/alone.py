"""One engine in this process: alone, or as the pod of an environment that a platform manages."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tenantry.adapters.admin_password import AdminPassword
from tenantry.adapters.keys import MountedKeys
from tenantry.adapters.local.engine_backups import refuse_half_restored
from tenantry.adapters.store.secrets import HASH_PREFIX
from tenantry.adapters.store.state_folder import FolderLock, password_file
from tenantry.bootstrap.packages import Checking
from tenantry.bootstrap.sign_in import verifier
from tenantry.cli.failing import BAD_INPUT, Failure, say
from tenantry.cli.logs import configure
from tenantry.cli.output import write
from tenantry.cli.serving import serving
from tenantry.cli.signals import signalled
from tenantry.cli.sockets import listening, url_of
from tenantry.engine.access import Served
from tenantry.engine.logical.session import is_postgresql
from tenantry.engine.sealing import Sealing
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import Password
from tenantry.rest.uploads import Uploads
from tenantry.settings import Managed, Outbound, Settings, parse_address

KEY_FILE = "token-key.jwk"
INCOMING = "incoming"


async def serve_engine(data: Path, listen: str, database: str | None, settings: Settings) -> None:
    """Serves the engine of that folder until a signal comes. Raises Failure, Halt, OSError."""
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise Failure(f"--listen: {error}", BAD_INPUT) from None
    managed = settings.managed
    url = database or await asyncio.to_thread(database_of, managed)
    is_postgresql(url)  # raises Invalid before anything is made
    configure(say)
    lock = await asyncio.to_thread(FolderLock, data)
    await asyncio.to_thread(refuse_half_restored, data)
    bound = listening(host, port)
    public_url = settings.public_url.rstrip("/")
    limits = Checking.of(settings).limits
    engine = await Engine.open(data, database_url=url, limits=limits, owner=managed.uid)
    try:
        outbound = settings.outbound
        served = await (
            _managed(engine, data, managed, outbound, public_url) if managed.uid else _alone(engine, data, outbound, public_url)
        )
        uploads = Uploads(await asyncio.to_thread(_incoming, data), settings.packages.size)
        async with serving(engine_app(lambda request: served, uploads), bound, settings.http):
            write(f"Ready: {url_of(bound)}")
            await signalled()
    finally:
        await engine.close()
        lock.release()


async def _alone(engine: Engine, data: Path, outbound: Outbound, public_url: str) -> Served:
    await engine.set_admin_password(await asyncio.to_thread(lambda: _password(data, password_file(data))))
    return Served(engine, data / KEY_FILE, foreign=verifier(outbound), public_url=public_url)


async def _managed(engine: Engine, data: Path, managed: Managed, outbound: Outbound, public_url: str) -> Served:
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


def database_of(managed: Managed) -> str | None:
    """The URL that the platform gives to its engine, None for SQLite. Blocks. Raises OSError."""
    return managed.database_url.read_text().strip() if managed.database_url else None


def _incoming(data: Path) -> Path:
    folder = data / INCOMING
    folder.mkdir(mode=0o700, exist_ok=True)
    for left in folder.iterdir():
        left.unlink()
    return folder
