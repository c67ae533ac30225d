"""The platform of a state folder on which nothing runs, opened by this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tenantry.adapters.sources.git.url import source_of
from tenantry.bootstrap import FOLLOWED, Platform
from tenantry.cli.issuing import issuer
from tenantry.hosts.console import About, Console
from tenantry.hosts.local_console import LocalConsole
from tenantry.hosts.standalone import fill
from tenantry.rest.release import release_label

IDLE_URL = "http://127.0.0.1:8080"
"""The base URL of a platform that does not run; nothing is served there."""


@asynccontextmanager
async def opened(state: Path) -> AsyncIterator[Console]:
    """Its console. No pass runs; the cache shows what is stored. Raises StateInUse, StateUnwritable, StateUnreadable."""
    platform = await Platform.open(state, IDLE_URL)
    try:
        for kind in FOLLOWED:
            await fill(platform.store, platform.cache, kind)
        yield console_of(platform)
    finally:
        await platform.close()


def console_of(platform: Platform, url: str = "", source: str = "") -> LocalConsole:
    """The console of a platform of this process. url: where it is served, `""` when it does not run."""
    return LocalConsole(
        About(release_label(), str(platform.state.absolute()), url, source),
        platform.writing,
        platform.store,
        platform.packages,
        platform.ports.logs,
        lambda written, name: platform.plan_source(source_of(written), name),
        issuer(platform),
        platform.source,
        archives=platform.backups,
    )
