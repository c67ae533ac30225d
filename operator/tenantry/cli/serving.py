"""uvicorn as a context: serves an application on a socket that already listens, and leaves signals to the command."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from tenantry.cli.connections import Connections, raise_file_limit
from tenantry.cli.patience import Patient
from tenantry.settings import Http, parse_networks

GRACE_S = 5
"""How long requests under way may take when the server ends."""
KEEP_ALIVE_S = 75
COLLECTOR = (50_000, 20, 50)
"""Thresholds of the garbage collector: what a platform makes is mostly kept, and looking through it all often cost a seventh."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest event loop that is installed."""
    return uvicorn.Config("", log_config=None).get_loop_factory()


def tune_collector() -> None:
    """Sets the garbage collector for a long life with many objects; what is there by now is not looked at again."""
    gc.freeze()
    gc.set_threshold(*COLLECTOR)


@asynccontextmanager
async def serving(app: ASGIApp, bound: socket.socket, http: Http | None = None) -> AsyncIterator[None]:
    """Serves until the end of the block. Raises what ends the server early.

    http: its limits, and whose X-Forwarded-* it believes.
    """
    http = http or Http()
    raise_file_limit()
    config = uvicorn.Config(
        app,
        http=cast(type[Patient], partial(Patient, connections=Connections(http), proxies=parse_networks(http.proxies))),
        proxy_headers=bool(http.proxies),
        forwarded_allow_ips=[part.strip() for part in http.proxies.split(",")],
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve([bound]), name="serve")
    try:
        started = asyncio.create_task(server.up.wait())
        await asyncio.wait((started, task), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        yield
    finally:
        server.should_exit = True
        await task
