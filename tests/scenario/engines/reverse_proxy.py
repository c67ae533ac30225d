"""A reverse proxy that ends TLS in front of a server at loopback, and says for whom it asks, as others do."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def reverse_proxy(context: ssl.SSLContext) -> AsyncIterator[ReverseProxy]:
    """Serve until the end of the block. One request for each connection."""
    proxy = ReverseProxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=context)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await server.wait_closed()


class ReverseProxy:
    """target: the port of the server behind it. It keeps `Host`, and connects from 127.0.0.1."""

    port = 0
    target = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one request on, and all of its answer back."""
        with suppress(OSError, asyncio.IncompleteReadError):
            first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
            client = writer.get_extra_info("peername")[0]
            inside, outside = await asyncio.open_connection("127.0.0.1", self.target)
            outside.write("\r\n".join((first, *_told(fields, client), "", "")).encode("latin-1"))
            sending = asyncio.create_task(_copy(reader, outside))
            await _copy(inside, writer)
            sending.cancel()
            outside.close()
        writer.close()


def _told(fields: list[str], client: str) -> list[str]:
    """The headers of a request, with the sender and the protocol as the proxy saw them."""
    said = {name.strip().lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    chain = ", ".join(filter(None, (said.pop("x-forwarded-for", ""), client)))
    said |= {"x-forwarded-for": chain, "x-forwarded-proto": "https", "connection": "close"}
    return [f"{name}: {value}" for name, value in said.items()]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
