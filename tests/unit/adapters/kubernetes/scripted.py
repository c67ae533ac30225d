"""An HTTP server on loopback with scripted answers, one a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tenantry.adapters.kubernetes.client.credentials import Credentials, ServerAccess
from tenantry.adapters.kubernetes.client.http import Client


@dataclass(frozen=True)
class Say:
    """One answer. lost: the connection ends instead; cut: it ends after the chunks, which are sent one by one."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    chunks: tuple[bytes, ...] = ()
    cut: bool = False


class Lost(Say):
    """The request came, and its answer never did."""

    def __init__(self) -> None:
        super().__init__(lost=True)


def refused(status: int, reason: str = "", retry_after: int | None = None, **rest: Any) -> Say:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Say(status, {"kind": "Status", "code": status, "reason": reason, "message": reason} | rest, headers)


def told(*changes: dict[str, Any], cut: bool = False) -> Say:
    """A watch."""
    return Say(chunks=tuple(orjson.dumps(change) + b"\n" for change in changes), cut=cut)


@dataclass
class Server:
    """The requests so far; `script` holds the next answers. The last answer is repeated."""

    script: list[Say]
    url: str = ""
    asked: list[web.Request] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.asked.append(request)
        say = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if say.lost and request.transport is not None:
            request.transport.abort()
        if say.chunks:
            return await self._stream(request, say)
        body = say.body if isinstance(say.body, bytes) else orjson.dumps(say.body)
        return web.Response(status=say.status, body=body, headers=say.headers)

    async def _stream(self, request: web.Request, say: Say) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in say.chunks:
            await response.write(chunk)
        if say.cut and request.transport is not None:
            await asyncio.sleep(0)
            request.transport.close()
        return response

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.asked]


@asynccontextmanager
async def serving(*script: Say) -> AsyncIterator[Server]:
    server = Server(list(script))
    application = web.Application(client_max_size=2**22)
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(url: str, tokens: Sequence[str] = ("one",)) -> AsyncIterator[Client]:
    """tokens: what reading the credentials gives, one after the other; the last again and again."""
    left = list(tokens)

    def read() -> ServerAccess:
        return ServerAccess(url, f"Bearer {left.pop(0) if len(left) > 1 else left[0]}")

    client = Client(Credentials(read, pause=0.0))
    try:
        yield client
    finally:
        await client.close()
