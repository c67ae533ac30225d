"""A server behind a door that counts: connections, and the times that a client waits for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

BYTES = 1 << 16


class RoundTrips:
    """The counts so far. trips: of all connections together, the opening of each among them."""

    def __init__(self) -> None:
        self.connections = 0
        self.trips = 0


@asynccontextmanager
async def counted(host: str, port: int) -> AsyncIterator[tuple[int, RoundTrips]]:
    """The port of such a door before a server, and its counts."""
    counts = RoundTrips()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(host, port)
        counts.connections += 1
        answered = True

        async def ask() -> None:
            nonlocal answered
            while data := await reader.read(BYTES):
                counts.trips += answered
                answered = False
                inner_writer.write(data)
            inner_writer.close()

        async def answer() -> None:
            nonlocal answered
            while data := await inner_reader.read(BYTES):
                answered = True
                writer.write(data)
            writer.close()

        with suppress(ConnectionError):
            await asyncio.gather(ask(), answer())

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], counts
    finally:
        server.close()
