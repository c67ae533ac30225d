"""Tells when a directory may have changed: by the system's notifications, and periodically, for those are sometimes lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import watchfiles

DEBOUNCE_MS = 300
RESYNC_S = 300.0


async def changes(
    root: Path, stop: asyncio.Event, *, resync_s: float = RESYNC_S, debounce_ms: int = DEBOUNCE_MS
) -> AsyncIterator[None]:
    """Yields once a burst of changes below `root` is over, and at least every `resync_s` seconds, until `stop` is set.

    Every change counts, package sources included; reading the directory again finds out whether it matters.
    """
    folder = root if await asyncio.to_thread(root.is_dir) else root.parent
    watched = watchfiles.awatch(
        folder,
        stop_event=stop,
        debounce=debounce_ms,
        rust_timeout=int(resync_s * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
        watch_filter=None,
    )
    async for _ in watched:
        yield None
