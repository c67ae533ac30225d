"""A directory's edits are told, and so is that time has passed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tenantry.adapters.sources.watch import changes

DEADLINE = 10


async def test_an_edit_is_told(tmp_path: Path) -> None:
    stop = asyncio.Event()
    watched = changes(tmp_path, stop, debounce_ms=50)
    told = asyncio.create_task(anext(watched))
    async with asyncio.timeout(DEADLINE):
        number = 0
        while not told.done():
            number += 1
            (tmp_path / "a.yaml").write_text(f"a: {number}")
            await asyncio.wait({told}, timeout=0.1)
    stop.set()
    await watched.aclose()


async def test_without_an_edit_time_is_told(tmp_path: Path) -> None:
    stop = asyncio.Event()
    async with asyncio.timeout(DEADLINE):
        async for _ in changes(tmp_path, stop, resync_s=0.05):
            stop.set()
