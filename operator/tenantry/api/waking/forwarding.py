"""A request forwarded to an engine, and its answer: both stream, and neither is changed but for the headers of a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import httpx
import structlog
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

CONNECT_S = 5.0
SILENCE_S = 600.0
"""An engine that says nothing for so long within an answer is gone."""
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_SET_HERE = frozenset({b"expect", b"x-forwarded-for", b"x-forwarded-proto"})
_TIMEOUTS = {"connect": CONNECT_S, "read": SILENCE_S, "write": SILENCE_S, "pool": None}
Headers = list[tuple[bytes, bytes]]

log = structlog.get_logger(__name__)


class NotReached(Exception):  # noqa: N818 - not an error: the engine is looked for again
    """Nobody listens there. Nothing of the request was read or sent."""


class NoAnswer(Exception):  # noqa: N818 - as above
    """The engine has the request and ended without an answer."""


def without_hops(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that a proxy passes on, their names in lower case."""
    given = [(name.lower(), value) for name, value in headers]
    named = {part.strip().lower() for name, value in given if name == b"connection" for part in value.split(b",")}
    return [(name, value) for name, value in given if name not in _HOP_BY_HOP and name not in named]


def forwarded_headers(scope: Scope) -> Headers:
    """Return the request's headers for the engine. The address of the client is added to what proxies before say."""
    given: Headers = scope["headers"]
    headers = [(name, value) for name, value in without_hops(given) if name not in _SET_HERE]
    before = [value for name, value in given if name.lower() == b"x-forwarded-for"]
    client = scope.get("client")
    hops = [*before, *([str(client[0]).encode()] if client else [])]
    headers += [(b"x-forwarded-for", b", ".join(hops))] if hops else []
    headers.append((b"x-forwarded-proto", str(scope.get("scheme", "http")).encode()))
    if any(name.lower() == b"transfer-encoding" for name, _ in given):
        headers.append((b"transfer-encoding", b"chunked"))
    return headers


def answered_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the answer's headers for the client. The date is set by the server that sends it."""
    return [(name, value) for name, value in without_hops(headers) if name != b"date"]


def target_of(scope: Scope) -> bytes:
    """Return path and query as they came: what is percent-encoded stays so."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return path + b"?" + query if query else path


class RequestBody(httpx.AsyncByteStream):
    """The body of a request, read while it is sent on."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            more = message.get("more_body", False)
            if part := message.get("body", b""):
                yield part
        self._read.set()

    async def client_left(self) -> None:
        """Return when the client has left after it sent the whole body."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Forwarder:
    """Forwards requests. Each has a connection of its own: one that was kept could belong to a pod that is gone.

    proxied: the transport sends them to a proxy, which takes whole URLs.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, *, proxied: bool = False) -> None:
        self._transport = transport
        self._proxied = proxied

    async def forward(self, scope: Scope, receive: Receive, send: Send, base: str) -> None:
        """Send the request to the engine at that URL, and its answer to the client. A client that leaves ends both.

        Raises NotReached, NoAnswer; then nothing was answered.
        """
        body = RequestBody(receive)
        relay = asyncio.create_task(self._relay(scope, body, send, base), name="forward")
        left = asyncio.create_task(body.client_left(), name="client left")
        try:
            await asyncio.wait((relay, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            relay.cancel()
            left.cancel()
            ended = (await asyncio.gather(relay, left, return_exceptions=True))[0]
        if isinstance(ended, Exception) and not isinstance(ended, ClientDisconnect):
            raise ended

    async def _relay(self, scope: Scope, body: RequestBody, send: Send, base: str) -> None:
        target = target_of(scope)
        request = httpx.Request(
            scope["method"],
            base,
            headers=forwarded_headers(scope),
            stream=body,
            extensions={"target": base.encode() + target if self._proxied else target, "timeout": _TIMEOUTS},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NotReached from error
        except httpx.TransportError as error:
            raise NoAnswer from error
        try:
            headers = answered_headers(response.headers.raw)
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async for part in response.stream:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except httpx.TransportError as error:
            log.warning("answer of an engine broke off", error=type(error).__name__)  # the server closes the connection
        finally:
            await response.aclose()
