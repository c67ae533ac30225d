"""Sockets that listen."""

from __future__ import annotations

import asyncio
import socket

from tenantry.cli.clients.sockets import listening
from tests.support.patience import DEADLINE_S


async def test_small_answers_are_sent_at_once_by_any_event_loop() -> None:
    """Otherwise the second part of an answer waits 40 ms for the acknowledgement of the first."""
    accepted: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(transport)

    bound = listening("127.0.0.1", 0)
    server = await asyncio.get_running_loop().create_server(Protocol, sock=bound)
    async with server:
        _, writer = await asyncio.open_connection(*bound.getsockname())
        transport = await asyncio.wait_for(accepted, DEADLINE_S)
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.close()
        writer.close()
