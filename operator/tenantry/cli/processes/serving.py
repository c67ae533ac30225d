"""uvicorn as a context: serves an application on a socket that already listens, and leaves signals to the command."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.cli.processes.ending_streams import EndingStreams
from tenantry.cli.processes.http.answers_at_once import AnswersAtOnce
from tenantry.cli.processes.http.connections import Connections, raise_file_limit
from tenantry.cli.processes.prompt_thread import shorten_slices
from tenantry.rest.answers import AnswerNow, not_now
from tenantry.rest.cross_origin import CrossOrigin
from tenantry.settings import HttpSettings, parse_address, parse_networks, parse_origins

GRACE_S = 5
"""Seconds that running requests may take when the server ends. Event streams end at once."""
KEEP_ALIVE_S = 75
SWITCH_S = 0.0001
"""Seconds that a thread computes before another has its turn; by default fifty times as long."""
COLLECTOR = (1_000, 10, 200)
"""Thresholds of the garbage collector. It stops all threads while it collects, for about 0.5 ms for each 1,000 new objects.

What a platform makes is mostly kept: all of it is looked through after two million new objects at the earliest.
"""


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


def address_of(listen: str) -> tuple[str, int]:
    """Return host and port of `--listen`. Raises Failure."""
    try:
        return parse_address(listen)
    except ValueError as error:
        raise Failure(f"--listen: {error}", BAD_INPUT) from None


def tune_collector() -> None:
    """Sets the garbage collector for a long life with many objects; what is there by now is not looked at again."""
    gc.freeze()
    gc.set_threshold(*COLLECTOR)


@asynccontextmanager
async def serving(
    app: ASGIApp, bound: socket.socket, http: HttpSettings | None = None, now: AnswerNow = not_now
) -> AsyncIterator[None]:
    """Serves until the end of the block. Raises what ends the server early.

    http: its limits, whose X-Forwarded-* it believes, and the origins whose pages may call it. now: answers what needs no
    waiting, unless proxies or origins change what is answered.
    """
    http = http or HttpSettings()
    raise_file_limit()
    # A thread of a database waits for its turn each time that it comes back from a call.
    sys.setswitchinterval(SWITCH_S)
    shorten_slices()
    proxies, origins = parse_networks(http.proxies), parse_origins(http.origins)
    protocol = partial(AnswersAtOnce, connections=Connections(http), proxies=proxies, now=not_now if proxies or origins else now)
    streams = EndingStreams(CrossOrigin(app, origins) if origins else app)
    config = uvicorn.Config(
        streams,
        http=cast(type[AnswersAtOnce], protocol),
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[str(network) for network in proxies],
        ws="none",
        lifespan="off",
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
        streams.end()
        await task
