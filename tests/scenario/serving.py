"""An ASGI application on a free loopback port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from tests.support.waiting import eventually


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """The URL of that application, while it is served."""
    # asyncio's own loop sends small answers at once only on sockets whose protocol is named as TCP: others wait for 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        server = _Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.ended.set()
        await task


class _Server(uvicorn.Server):
    """A server that ends once `ended` is set. That of uvicorn takes two tenths of a second, in each of some hundred tests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)  # sets the headers of each answer
        await self.ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        await eventually(lambda: not state.connections and not state.tasks, shows=lambda: (state.connections, state.tasks))
