"""The platform of a state folder on which nothing runs, opened by this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from tenantry.adapters.sources.git.url import source_of
from tenantry.bootstrap.applying import apply_plan
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.clients.issuing import issuer
from tenantry.hosts.console.local import LocalConsole
from tenantry.hosts.console.protocol import About, Console
from tenantry.hosts.standalone import fill
from tenantry.kinds.registry import FOLLOWED
from tenantry.rest.release import release_label
from tenantry.settings import Settings


@asynccontextmanager
async def opened(state: Path) -> AsyncIterator[Console]:
    """Its console. No pass runs; the cache shows what is stored. URLs are those that `up` would give.

    Raises StateInUse, StateUnwritable, StateUnreadable.
    """
    settings = Settings()
    url = settings.public_url.rstrip("/") or f"http://{settings.listen}"
    platform = await Platform.open(state, url, settings=settings)
    try:
        for kind in FOLLOWED:
            await fill(platform.state.store, platform.state.cache, kind)
        yield console_of(platform)
    finally:
        await platform.close()


def console_of(platform: Platform, url: str = "", source: str = "") -> LocalConsole:
    """The console of a platform of this process. url: where it is served, `""` when it does not run."""
    return LocalConsole(
        About(release_label(), str(platform.state.folder.absolute()), url, source),
        platform.state.writing,
        platform.state.store,
        platform.state.packages,
        platform.ports.logs,
        lambda written, name: platform.plan_source(source_of(written), name),
        issuer(platform),
        platform.source,
        archives=platform.backups,
        applies=partial(apply_plan, platform),
        holds=platform.held_engines,
        faults=lambda: platform.host.supervisor.faults,
    )
