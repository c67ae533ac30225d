"""Report when a directory may have changed: by the system's notifications, and periodically, because those are sometimes
lost."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

DEBOUNCE_MS = 300
RESYNC_S = 300.0
GRAIN_S = 0.05
"""The time by which a file system's clock may be behind."""


async def changes(
    root: Path,
    stop: asyncio.Event,
    read_at: Callable[[], float] = time.time,
    *,
    resync_s: float = RESYNC_S,
    debounce_ms: int = DEBOUNCE_MS,
) -> AsyncIterator[None]:
    """Yields once a burst of changes below `root` is over, and at least every `resync_s` seconds, until `stop` is set.

    Every change counts, package sources included; reading the directory again finds out whether it matters. read_at: the
    start of its last reading, in seconds since the epoch. What changed after that and before the watch began counts, too.
    """
    await asyncio.to_thread(import_module, "watchfiles")  # `up` answers before it needs them
    import watchfiles

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
    first = asyncio.ensure_future(anext(watched))
    try:
        await asyncio.sleep(0)  # the watch begins in the first step of the task
        if await asyncio.to_thread(_changed, folder, read_at() - GRAIN_S):
            yield None
        with suppress(StopAsyncIteration):
            await first
            yield None
        async for _ in watched:
            yield None
    finally:
        first.cancel()
        await asyncio.wait({first})


def _changed(folder: Path, since: float) -> bool:
    """Return True if a file or a folder in there changed since then. One that cannot be looked at did not."""
    for at, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            with suppress(OSError):
                if Path(at, name).lstat().st_ctime >= since:
                    return True
    return False
