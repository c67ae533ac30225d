"""The network for httpx, by aiohttp: the operator asks thousands of engines, each of them now and then.

httpx's own half takes twice as long for such a request: it looks at all connections that it keeps, whichever server is asked.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import cache

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

IDLE_S = 1.0
"""For which a connection is kept: for the next request of a pass, or of the next engine of a pool."""


class EngineTransport(AiohttpTransport):
    """Leads to each URL, by a proxy if one is given. Belongs to the event loop of its first request."""

    def __init__(self, proxy: str = "") -> None:
        super().__init__(verify=_trust(), proxy=httpx.Proxy(proxy) if proxy else None, client=_session)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises httpx.TransportError."""
        with _told_apart():
            answer = await super().handle_async_request(request)
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        answer.stream = _Body(answer.stream)
        return answer


class _Body(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _told_apart():
            async for part in self._inner:
                yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextmanager
def _told_apart() -> Iterator[None]:
    """The library calls a connection that breaks a time-out, and leaves an answer that is no HTTP to aiohttp's own error."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        if isinstance(error.__cause__, TimeoutError):
            raise
        raise httpx.ReadError(str(error)) from error
    except aiohttp.ClientError as error:
        raise httpx.RemoteProtocolError(str(error)) from error


@cache
def _trust() -> ssl.SSLContext:
    """The certificate authorities of httpx. Read once, because reading takes as long as many requests."""
    return httpx.create_ssl_context(trust_env=False)


def _session() -> aiohttp.ClientSession:
    # Workers bound the requests. No address is kept: it may be that of another tenant's engine in the next moment.
    connector = aiohttp.TCPConnector(limit=0, ssl=_trust(), keepalive_timeout=IDLE_S, use_dns_cache=False)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
