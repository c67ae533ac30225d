"""A platform of one machine that follows a folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tenantry.bootstrap.embedded import Platform
from tenantry.settings import Settings
from tests.crash.campaign import URL


@asynccontextmanager
async def platform_of_folder(state: Path, source: Path, settings: Settings | None = None) -> AsyncIterator[Platform]:
    """A platform of this source, started."""
    platform = await Platform.open(state, URL, settings=settings)
    try:
        platform.attach(source, "default")
        await platform.start()
        yield platform
    finally:
        await platform.close()
