"""GET /metrics of a process that serves nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


@asynccontextmanager
async def metrics_served(address: str, registry: CollectorRegistry) -> AsyncIterator[int]:
    """Serves until the end of the block, and yields the port. address: `HOST:PORT`. Raises OSError where it is taken."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        host, _, port = address.rpartition(":")
        await web.TCPSite(runner, host.strip("[]"), int(port)).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
