"""An engine whose answers a test lets fail, behind a declared environment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.engine import wire as engine_wire
from tenantry.adapters.engine.transport import EngineTransport
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.registry import TYPES
from tests.crash import story
from tests.crash.campaign import URL, portrait
from tests.crash.engine_proxy import EngineProxy
from tests.scenario.serving import serving

CONVERGES_S = 120.0
PATIENCE_S = 2.0
"""Seconds that the operator waits for an engine here, instead of 10 and more."""


class Ours:
    """Engines of the platform itself, reached by sockets."""

    async def tell(self, folder: Path, proxy: EngineProxy) -> list[Any]:
        state, source = folder / "state", folder / "source"
        state.mkdir(parents=True)
        platform = await Platform.open(state, URL)
        portraits = []
        try:
            async with proxy.serving() as url, serving(platform.http) as proxy.target:
                through = _Through(url)
                platform.engines._transport_for = lambda _: through
                platform.attach(story.write(source, story.CHAPTERS[0]), "default")
                await platform.start()
                for chapter in story.CHAPTERS:
                    story.write(source, chapter)
                    await applied(platform, proxy, approve=chapter == "delete")
                    await rests(platform, proxy)
                    with proxy.at_rest():
                        portraits.append(await portrait(platform))
                await through.aclose()
        finally:
            await platform.close()
        return portraits


class _Through(EngineTransport):
    """To the proxy, whatever the URL says."""

    def __init__(self, proxy: str) -> None:
        super().__init__()
        self._proxy = httpx.URL(proxy)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host=self._proxy.host, port=self._proxy.port)
        return await super().handle_async_request(request)


async def applied(platform: Platform, proxy: EngineProxy, *, approve: bool) -> None:
    """Apply what is written now until nothing is left to do. The time runs anew after each fault."""
    async with _time_after_faults(proxy):
        assert platform.source is not None
        await platform.source.sync()
        await _settled(platform)
        if approve:
            platform.source.syncer.approve()
            await platform.source.sync()
            await _settled(platform)


@asynccontextmanager
async def _time_after_faults(proxy: EngineProxy) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONVERGES_S) as limit:
        proxy.on_strike = lambda: limit.reschedule(loop.time() + CONVERGES_S)
        try:
            yield
        finally:
            proxy.on_strike = lambda: None


async def _settled(platform: Platform) -> None:
    """Nothing waits for another try, either."""
    await platform.converged()
    while any(reason in _TRIED_AGAIN for _, reason in ready_of(platform).values()):
        await asyncio.sleep(0.02)  # a back-off tells nobody when it ends
        await platform.converged()


_TRIED_AGAIN = ("EngineUnreachable", "EngineTimeout", "EngineFailing", "EngineAnswer", "NotAnEngine", "EngineNotRunning")


def ready_of(platform: Platform) -> dict[str, tuple[str, str]]:
    """Status and reason by object."""
    found = {}
    for kind in set(TYPES) - {"Operation"}:
        for resource in platform.state.cache.resources(kind):
            ready = resource.status.condition("Ready")
            if ready is not None:
                found[str(resource.ref)] = (ready.status, ready.reason)
    return found


async def rests(platform: Platform, proxy: EngineProxy) -> None:
    """Looking at everything again writes nothing and changes no engine."""
    struck = -1
    while struck != proxy.struck:  # a look that is struck is one more
        struck, before = proxy.struck, (_versions(platform), proxy.changes)
        platform.runtime.resync()
        await _settled(platform)
    moved = dict(_versions(platform).items() ^ before[0].items())
    assert (moved, proxy.changes) == ({}, before[1])


def _versions(platform: Platform) -> dict[str, str]:
    return {
        str(resource.ref): resource.metadata.resource_version
        for kind in TYPES
        for resource in platform.state.cache.resources(kind)
    }


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOREIGN_S", "FOREIGN_LONG_S"):
        monkeypatch.setattr(engine_wire, name, PATIENCE_S)
    for timeout in (engine_wire.TIMEOUT, engine_wire.LONG_TIMEOUT):
        monkeypatch.setattr(timeout, "read", PATIENCE_S)
