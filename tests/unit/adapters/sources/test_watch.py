"""A directory's edits are noticed, and so is the passing of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

from tenantry.adapters.sources.watch import changes
from tests.support.patience import DEADLINE_S


async def test_an_edit_is_told(tmp_path: Path) -> None:
    stop = asyncio.Event()
    watched = cast(AsyncGenerator[None, None], changes(tmp_path, stop, debounce_ms=50))
    told = asyncio.ensure_future(anext(watched))
    async with asyncio.timeout(DEADLINE_S):
        number = 0
        while not told.done():
            number += 1
            (tmp_path / "a.yaml").write_text(f"a: {number}")
            await asyncio.wait({told}, timeout=0.1)
    stop.set()
    await watched.aclose()


async def test_an_edit_between_the_reading_and_the_start_of_the_watch_is_told(tmp_path: Path) -> None:
    read_at = time.time()
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "a.yaml").write_text("a: 1")
    stop = asyncio.Event()
    stop.set()
    async with asyncio.timeout(DEADLINE_S):
        assert [told async for told in changes(tmp_path, stop, lambda: read_at)] == [None]


async def test_what_was_there_before_the_reading_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1")
    stop = asyncio.Event()
    stop.set()  # whatever comes after the start of the watch is not told
    assert [told async for told in changes(tmp_path, stop, lambda: time.time() + 60)] == []


async def test_without_an_edit_time_is_told(tmp_path: Path) -> None:
    stop = asyncio.Event()
    async with asyncio.timeout(DEADLINE_S):
        async for _ in changes(tmp_path, stop, resync_s=0.05):
            stop.set()
