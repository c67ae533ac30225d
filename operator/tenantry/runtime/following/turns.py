"""Turns at writing what a source declares, while it is followed in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenantry.ports import Declarations
from tenantry.runtime.following.feed import SourceFeed
from tenantry.runtime.sources.write_back import holding


@asynccontextmanager
async def turn_of(feed: SourceFeed, declarations: Declarations, within_s: float) -> AsyncIterator[Declarations]:
    """See runtime.write_back.WriteBack. It is synced soon after: others may have pushed as well, or have been first."""
    async with holding(feed.turn(), within_s):
        try:
            yield declarations
        finally:
            feed.ask()
