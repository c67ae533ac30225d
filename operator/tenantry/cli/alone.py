"""A standalone engine in this process."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from pathlib import Path

from tenantry.adapters.store.state_folder import FolderLock, password_file
from tenantry.cli.failing import BAD_INPUT, Failure, say
from tenantry.cli.logs import configure
from tenantry.cli.output import write
from tenantry.cli.serving import serving
from tenantry.cli.sockets import listening, url_of
from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import Password
from tenantry.rest.uploads import Uploads
from tenantry.settings import parse_address

KEY_FILE = "token-key.jwk"
INCOMING = "incoming"


async def serve_engine(data: Path, listen: str, database: str | None) -> None:
    """Serves the engine of that folder until a signal comes. Raises Failure, Halt, OSError."""
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise Failure(f"--listen: {error}", BAD_INPUT) from None
    configure(say)
    lock = await asyncio.to_thread(FolderLock, data)
    bound = listening(host, port)
    engine = await Engine.open(data, database_url=database)
    try:
        await engine.set_admin_password(await asyncio.to_thread(_password, data))
        served = Served(engine, data / KEY_FILE)
        app = engine_app(lambda request: served, Uploads(await asyncio.to_thread(_incoming, data)))
        async with serving(app, bound):
            write(f"Ready: {url_of(bound)}")
            await _signalled()
    finally:
        await engine.close()
        lock.release()


async def _signalled() -> None:
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    await stop.wait()


def _password(data: Path) -> Password:
    clear = password_file(data)
    return Password(clear=clear, fingerprint=hashlib.sha256(clear.encode()).hexdigest()[:32])


def _incoming(data: Path) -> Path:
    folder = data / INCOMING
    folder.mkdir(mode=0o700, exist_ok=True)
    for left in folder.iterdir():
        left.unlink()
    return folder
