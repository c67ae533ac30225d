"""One HTTP client of one API server: JSON in and out, what may be sent again is, every refusal is a Halt.

It knows paths and bodies, not kinds: the store, the feed and the deployer are built on it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import orjson
from yarl import URL

from tenantry.adapters.kubernetes.client.credentials import Credentials, ServerAccess
from tenantry.adapters.kubernetes.client.wire import lines, refusal, told
from tenantry.model.verdicts import Halt, Stalled, Transient, Unauthorized

TRIES = 5
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
"""Of one pause, the server's own Retry-After included; who needs more patience retries the whole pass."""
REQUEST_S = 30.0
CONNECT_S = 5.0
SILENCE_S = 75.0
"""A watch has a bookmark about once a minute; one that is silent for longer is dead."""
HEARTBEAT_S = 60.0
"""The time that a channel may be silent before it is probed."""
UNANSWERED = "<error>"
"""Counted in place of a code for a request without an answer, as client-go does."""
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; its body may be JSON."""
_UNCOMMITTED = frozenset({429, 503})
"""Answered before anything was done, when the answer says when to come again."""


class ServerAnswer(NamedTuple):
    """status: the HTTP code. retry_after: seconds, None where the server named none."""

    status: int
    body: bytes
    retry_after: float | None


class Client:
    """Speaks to one API server. Belongs to one event loop; `close` ends its connections."""

    def __init__(self, credentials: Credentials, *, headers: Mapping[str, str] | None = None) -> None:
        self._credentials = credentials
        self._headers = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "tenantry", **(headers or {})}
        self._pool = _Pool()

    def with_headers(self, headers: Mapping[str, str]) -> Client:
        """The same client, sending these as well; for impersonation. Connections are shared."""
        other = Client(self._credentials, headers={**self._headers, **headers})
        other._pool = self._pool
        return other

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        """The answer's JSON object. path: absolute, percent-encoded.

        Sent again, at most TRIES times, when the server was not reached or says that it did nothing; reads also when the
        answer was lost. Raises the Halts of wire.refusal; a Transient one (Unreachable, AnswerLost, Timeout) where there is
        no answer, and then a write may have been done.
        """
        data = None if body is None else orjson.dumps(body)
        renewed = False
        for tries_left in reversed(range(TRIES)):
            access = await self._credentials.access()
            try:
                answer = await self._send(access, method, path, query, data, content_type)
            except (aiohttp.ClientError, TimeoutError) as error:
                self.requests[method, UNANSWERED] += 1
                if not tries_left or not _repeatable(method, error):
                    raise _unanswered(method, path, error) from error
                await _pause(TRIES - tries_left, None)
                continue
            self.requests[method, str(answer.status)] += 1
            if answer.status < 400:
                return _object(method, path, answer.body)
            if answer.status == 401 and not renewed:
                renewed = True
                if await self._credentials.renew(access) is not access:
                    continue
            if not tries_left or not _worth_another_try(method, answer):
                raise refusal(answer.status, told(answer.body))
            await _pause(TRIES - tries_left, answer.retry_after)
        raise Unauthorized(f"{method} {path}: the credentials were refused, and so were the renewed ones")

    async def stream(
        self, path: str, query: Mapping[str, str], opened: Callable[[], object] = lambda: None
    ) -> AsyncIterator[dict[str, Any]]:
        """The JSON objects of one watch, until the server ends it. Not tried again. opened: called when the server has taken it.

        Raises the Halts of wire.refusal; a Transient one when the connection breaks or falls silent.
        """
        access = await self._credentials.access()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        try:
            async with self._pool.session.request("GET", _url(access, path), **self._options(access, query, timeout)) as response:
                self.requests["GET", str(response.status)] += 1
                if response.status == 401:
                    await self._credentials.renew(access)
                if response.status >= 400:
                    raise refusal(response.status, told(await response.read()))
                opened()
                async for line in lines(response.content.iter_any()):
                    yield orjson.loads(line)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unanswered("WATCH", path, error) from error

    @asynccontextmanager
    async def channel(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket of that protocol, until the end of the block. Not tried again.

        Raises the Halts of wire.refusal; a Transient one when the server is not reached.
        """
        access = await self._credentials.access()
        options = self._options(access, None, aiohttp.ClientTimeout())
        for key in ("timeout", "allow_redirects"):
            del options[key]
        # The stream is not JSON, and the server refuses a request that accepts only JSON.
        options |= {"params": query, "headers": {**options["headers"], "Accept": "*/*"}}
        try:
            socket = await self._pool.session.ws_connect(
                _url(access, path), **options, protocols=(protocol,), heartbeat=HEARTBEAT_S
            )
        except aiohttp.WSServerHandshakeError as error:
            if error.status == 401:
                await self._credentials.renew(access)
            raise refusal(error.status, {"message": f"{path}: the API server answered {error.status}"}) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unanswered("CONNECT", path, error) from error
        async with socket:
            if socket.protocol != protocol:
                raise Halt(Stalled("ProtocolUnknown", f"{path}: the API server does not speak {protocol}", "Operator"))
            yield socket

    @property
    def requests(self) -> Counter[tuple[str, str]]:
        """Return the number of requests by method and code, also of the clients made by `with_headers`."""
        return self._pool.requests

    async def close(self) -> None:
        """Ends the connections, also of the clients made by `with_headers`."""
        await self._pool.close()

    async def _send(
        self, access: ServerAccess, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None, content_type: str
    ) -> ServerAnswer:
        timeout = aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S)
        options = self._options(access, query, timeout)
        if data is not None:
            options |= {"data": data, "headers": {**options["headers"], "Content-Type": content_type}}
        async with self._pool.session.request(method, _url(access, path), **options) as response:
            return ServerAnswer(response.status, await response.read(), _seconds(response.headers.get("Retry-After")))

    def _options(self, access: ServerAccess, query: Mapping[str, str] | None, timeout: aiohttp.ClientTimeout) -> dict[str, Any]:
        headers = {**self._headers, "Authorization": access.authorization} if access.authorization else self._headers
        return {
            "params": query,
            "headers": headers,
            "timeout": timeout,
            "ssl": access.tls if access.tls is not None else True,
            "server_hostname": access.server_name,
            "proxy": access.proxy,
            "allow_redirects": False,
        }


class _Pool:
    """The session, made at the first request, for it belongs to the loop that then runs."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            # Watches hold their connections; requests are as many at once as there are workers.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _url(access: ServerAccess, path: str) -> URL:
    """The path on that server, as it is: its percent-encoding stays."""
    return URL(access.server.rstrip("/") + path, encoded=True)


async def _pause(tries: int, retry_after: float | None) -> None:
    """Full jitter over a growing time, never less than the server asked for."""
    grown = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**tries)
    await asyncio.sleep(min(LONGEST_PAUSE_S, retry_after or 0.0) + random.uniform(0, grown))  # noqa: S311 - jitter


def _repeatable(method: str, error: Exception) -> bool:
    """Return True if sending the request again does no harm. A connection that was never made carried nothing."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.InvalidURL):
        return False
    return method == "GET" or isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def _worth_another_try(method: str, answer: ServerAnswer) -> bool:
    if answer.status in _UNCOMMITTED and (answer.retry_after is not None or answer.status == 429):
        return True
    return method == "GET" and answer.status >= 500


def _unanswered(method: str, path: str, error: Exception) -> Halt:
    reason = "Timeout" if isinstance(error, TimeoutError) else "AnswerLost"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        reason = "Unreachable"
    return Halt(Transient(reason, f"{method} {path}: {str(error) or type(error).__name__}"))


def _object(method: str, path: str, body: bytes) -> dict[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Halt(Transient("NotJson", f"{method} {path}: the answer is not JSON; is this an API server?")) from error
    if not isinstance(answer, dict):
        raise Halt(Transient("NotJson", f"{method} {path}: the answer is not a JSON object; is this an API server?"))
    return answer


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; Kubernetes never sends a date."""
    return float(header) if header is not None and header.isdecimal() else None
