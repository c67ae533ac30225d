"""C2: with 50 streams and 200 changes a second, a change is on its way to each browser within a second."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from starlette.requests import Request

from tenantry.console.http.sessions import Sessions
from tenantry.console.reading.rights import Rights
from tenantry.console.routes.live import STREAMS, LiveUpdates
from tenantry.console.routes.screens import Screens
from tests.scenario.console.console_world import BASE, console_world, sign_in
from tests.support.patience import BUSY

READERS = 50
PER_SECOND = 200
CHANGES = 2_000
WITHIN_S = 1.0
"""The gate of the design."""
MARK = re.compile(rb"change-(\d+)")
TIME = "2026-11-23T08:00:00Z"
pytestmark = pytest.mark.slow


def environment(number: int, version: int) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": TIME}
    metadata = {"name": "dev", "namespace": "tenant-load", "uid": "load", "generation": 1, "creationTimestamp": TIME}
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {**metadata, "resourceVersion": str(version)},
        "spec": {"region": "here", "slug": "dev", "displayName": f"change-{number}"},
        "status": {"observedGeneration": 1, "conditions": [ready]},
    }


def stream_of(live: LiveUpdates, browser: httpx.AsyncClient) -> AsyncGenerator[bytes, None]:
    """The events of the list of environments."""
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = [(b"host", b"localhost:8080"), (b"cookie", cookies.encode())]
    scope = {"type": "http", "method": "GET", "path": "/console/live", "headers": headers, "scheme": "http",
             "server": ("localhost", 8080), "query_string": b"of=/environments"}  # fmt: skip
    events = live._events(Request(scope), Rights(True), "/environments", "")
    return cast("AsyncGenerator[bytes, None]", events)


async def test_a_change_reaches_every_stream_within_a_second(tmp_path: Path) -> None:
    made: list[float] = []
    late: list[float] = []
    async with console_world(tmp_path) as world:
        live = LiveUpdates(world.context, Sessions(world.context), Screens(world.context))
        cache, version = world.context.cache, 10**6
        browsers = []
        for _ in range(-(-READERS // STREAMS)):
            browser = await world.browser(base=BASE)
            assert (await sign_in(browser, "root")).status_code == 303
            browsers.append(browser)

        async def read(browser: httpx.AsyncClient) -> None:
            seen = 0
            async with aclosing(stream_of(live, browser)) as stream:
                async for event in stream:
                    found = [int(number) for number in MARK.findall(event)]
                    now = time.monotonic()
                    for number in range(seen, max(found, default=-1) + 1):
                        late.append(now - made[number])
                    seen = max([seen, *(number + 1 for number in found)])
                    if seen == CHANGES:
                        return

        readers = [asyncio.create_task(read(browsers[number // STREAMS])) for number in range(READERS)]
        began = time.monotonic()
        for number in range(CHANGES):
            made.append(time.monotonic())
            cache.absorb(environment(number, version + number))
            if (ahead := began + (number + 1) / PER_SECOND - time.monotonic()) > 0:
                await asyncio.sleep(ahead)  # the pace of the changes
            elif number % 20 == 0:
                await asyncio.sleep(0)
        took = time.monotonic() - began
        async with asyncio.timeout(60):
            await asyncio.gather(*readers)
    assert len(late) == READERS * CHANGES
    late.sort()
    p99 = late[int(len(late) * 0.99)]
    print(f"{CHANGES / took:.0f} changes/s to {READERS} streams: p50 {late[len(late) // 2]:.2f} s, p99 {p99:.2f} s")
    assert p99 <= WITHIN_S * BUSY
