"""Which platform a client command speaks to: the running `up` of the state folder, or its store where nothing runs."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from tenantry.adapters.store.sqlite import DATABASE_FILE
from tenantry.adapters.store.state_folder import StateInUse
from tenantry.bootstrap import FOLLOWED, Platform
from tenantry.cli.failing import Failure
from tenantry.cli.issuing import issuer
from tenantry.cli.remote import RemoteConsole
from tenantry.cli.sockets import answers, control_path
from tenantry.hosts.console import About, Console, LocalConsole
from tenantry.hosts.standalone import fill
from tenantry.rest.release import release_label

PATIENCE_S = 10.0
"""How long a platform that starts or stops may hold the folder without answering."""
PAUSE_S = 0.05
IDLE_URL = "http://127.0.0.1:8080"
"""The base URL of a platform that does not run; nothing is served there."""
T = TypeVar("T")


def with_console(state: Path, work: Callable[[Console], Awaitable[T]], *, fresh: bool = False) -> T:
    """Runs a client command's work against the platform of that state folder. fresh: an empty one will do where there is none.

    Raises Failure, Halt.
    """

    async def run(folder: Path) -> T:
        async with connected(folder) as console:
            return await work(console)

    if (state / DATABASE_FILE).exists():
        return asyncio.run(run(state))
    if not fresh:
        raise Failure(f"there is no platform in {state}; start one by `tenantry up SOURCE`, or name its folder by --state")
    with tempfile.TemporaryDirectory(prefix="tenantry-") as folder:
        return asyncio.run(run(Path(folder)))


@asynccontextmanager
async def connected(state: Path) -> AsyncIterator[Console]:
    """A console of the platform of that state folder. Raises Halt when it cannot be opened."""
    opened = await _open(state)
    try:
        yield opened if isinstance(opened, RemoteConsole) else console_of(opened)
    finally:
        await opened.close()


async def _open(state: Path) -> RemoteConsole | Platform:
    """The running platform, or the one of this process once nobody else holds the folder."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if answers(control_path(state)):
            return RemoteConsole.at(control_path(state))
        try:
            return await _filled(await Platform.open(state, IDLE_URL))
        except StateInUse:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(PAUSE_S)


async def _filled(platform: Platform) -> Platform:
    """With a cache that shows what is stored, as a running platform's does."""
    for kind in FOLLOWED:
        await fill(platform.store, platform.cache, kind)
    return platform


def console_of(platform: Platform, url: str = "", source: str = "") -> LocalConsole:
    """The console of a platform of this process. url: where it is served, `""` when it does not run."""
    return LocalConsole(
        About(release_label(), str(platform.state.absolute()), url, source),
        platform.writing,
        platform.store,
        platform.packages,
        platform.ports.logs,
        platform.plan_source,
        issuer(platform),
        platform.source,
    )
