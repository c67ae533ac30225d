"""C13: many tabs of one browser, and many streams of the process that is to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import httpx
from playwright.async_api import Page

from tenantry.console.routes.live import STREAMS as PER_SESSION
from tests.support.patience import BUSY

TABS = 12
OPENS_S = 1.0
"""The gate of the design, from the request for a page until it shows its list."""
STREAMS = 50
ENDS_S = 5.0
"""The gate of the design, from SIGTERM to the end of the process."""
OPENED_S = 60.0


async def open_a_page_beside_many(page: Page, console: str) -> None:
    """Fail if a page opens late beside many tabs that follow another. console: its address, with a slash at the end."""
    tabs = [await page.context.new_page() for _ in range(TABS)]
    for tab in tabs:
        await tab.goto(f"{console}environments")
    took = []
    for _ in range(3):
        began = time.monotonic()
        await page.goto(f"{console}regions")
        await page.locator("td.name a").first.wait_for()
        took.append(time.monotonic() - began)
    print(f"a page beside {TABS} tabs: {min(took):.2f} s")
    assert min(took) <= OPENS_S * BUSY
    for tab in tabs:
        await tab.close()


async def sessions(base: str, password: str, count: int) -> list[str]:
    """Cookies of as many sessions of the bootstrap SUPERUSER."""
    port = base.rpartition(":")[2]
    async with httpx.AsyncClient(base_url=base, timeout=60) as client:
        form = {"username": "admin", "password": password}
        answers = [await client.post("/api/v1/auth/token", data=form) for _ in range(count)]
    return [f"tenantry-console-{port}={answer.json()['access_token']}" for answer in answers]


async def end_under_streams(base: str, password: str, path: str, words: str, end: Callable[[], object]) -> None:
    """Fail if the process takes long to end while people follow a page. words: on that page; end: sends SIGTERM, and waits."""
    cookies = [cookie for cookie in await sessions(base, password, -(-STREAMS // PER_SESSION)) for _ in range(PER_SESSION)]
    opened, entered = asyncio.Event(), 0
    async with httpx.AsyncClient(base_url=base, timeout=60, limits=httpx.Limits(max_connections=STREAMS)) as client:

        async def follow(cookie: str) -> None:
            nonlocal entered
            request = {"params": {"of": path}, "headers": {"Cookie": cookie}}
            with suppress(httpx.TransportError):
                async with client.stream("GET", "/console/live", **request) as answer:  # type: ignore[arg-type]
                    parts = answer.aiter_text()
                    while words not in await anext(parts):
                        pass
                    entered += 1
                    if entered == STREAMS:
                        opened.set()
                    async for _ in parts:
                        pass

        streams = [asyncio.create_task(follow(cookie)) for cookie in cookies[:STREAMS]]
        await asyncio.wait_for(opened.wait(), OPENED_S * BUSY)
        began = time.monotonic()
        await asyncio.to_thread(end)
        took = time.monotonic() - began
        await asyncio.gather(*streams)
    print(f"the process ended {took:.1f} s after SIGTERM, with {STREAMS} streams")
    assert took <= ENDS_S * BUSY
