"""The end of a process that serves or operates, by signals."""

from __future__ import annotations

import asyncio
import signal


async def signalled() -> None:
    """Returns at SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    await stop.wait()
