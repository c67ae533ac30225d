"""Requests to an engine over HTTP, and its errors as Halts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpx

from tenantry.model.quotas import QuotaReached
from tenantry.model.verdicts import Conflict, Forbidden, Halt, Invalid, NotFound, Problem, Stalled, Transient, Unauthorized
from tenantry.rest.blobs import QUOTA
from tenantry.tracing.work import header, span

TIMEOUT = httpx.Timeout(30.0, connect=5.0)
LONG_TIMEOUT = httpx.Timeout(600.0, connect=5.0)
"""For what may migrate data or send a whole package."""
FOREIGN_S, FOREIGN_LONG_S = 10.0, 600.0
"""Seconds that an engine of others has for a whole answer, and for that of what takes long."""
LONG_AT_ONCE = 4
"""Long requests to engines of others, a namespace."""
LARGEST = 32 << 20
"""Bytes of a JSON answer."""
_TOLD = 1000
"""Characters of an engine's own words that are passed on."""
Json = Mapping[str, Any]
T = TypeVar("T")


class LongRequestTurns:
    """A limit on the long requests to foreign engines of one namespace, so that its engines cannot hold up all such work."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Raises a Transient Halt (EngineBusy) when there are enough."""
        if self._taken >= LONG_AT_ONCE:
            raise Halt(Transient("EngineBusy", f"{self._taken} uploads or installs into external engines are running already"))
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class Wire:
    """Requests to one engine, and its errors as Halts. turns: of an engine of others, which gets no more time than it must."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        base: str,
        authorization: Callable[[], Awaitable[str]],
        *,
        turns: LongRequestTurns | None = None,
    ) -> None:
        self._client = client
        self._base = base
        self._authorization = authorization
        self._turns = turns

    async def call(self, method: str, path: str, timeout: httpx.Timeout = TIMEOUT, **request: Any) -> Json:
        """The JSON object that the engine answers. Raises Halt."""
        async with self.stream(method, path, timeout, **request) as response:
            body = await self._read(response)
        try:
            value = json.loads(body)
        except ValueError as error:
            raise _garbage(self._base, str(error)) from error
        except RecursionError as error:
            raise _garbage(self._base, "its answer is nested too deeply") from error
        if not isinstance(value, dict):
            raise _garbage(self._base, "its answer is not an object")
        return value

    async def perform(self, method: str, path: str, timeout: httpx.Timeout = TIMEOUT, **request: Any) -> None:
        """Make a change whose answer is only success. Raises Halt, also for any other answer."""
        answer = await self.call(method, path, timeout, **request)
        if answer.get("success") is not True:
            raise _garbage(self._base, f"{method} {path} did not answer success, but {answer.get('message', 'nothing')!s}")

    async def data(self, path: str) -> list[Any]:
        """The list that the engine answers in `data`. Raises Halt."""
        items = (await self.call("GET", path)).get("data")
        if not isinstance(items, list):
            raise _garbage(self._base, f"{path} has no list in data")
        return items

    async def page(self, path: str, query: Sequence[tuple[str, str]]) -> tuple[bytes, str]:
        """Return the body that the engine answers, and the address of the next page, `""` for none. Raises Halt."""
        async with self.stream("GET", path, params=list(query)) as response:
            return await self._read(response), response.links.get("next", {}).get("url", "")

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, timeout: httpx.Timeout = TIMEOUT, **request: Any
    ) -> AsyncIterator[httpx.Response]:
        """The successful answer, its body not yet read. Raises Halt. An engine of others learns nothing of our traces."""
        with span(f"engine {method}", "client"):
            traced = header() if self._turns is None else {}
            headers = {"Authorization": await self._authorization(), "Accept-Encoding": "identity", **traced}
            async with self._answer(method, path, timeout, headers=headers, **request) as response:
                yield response

    @asynccontextmanager
    async def _answer(self, method: str, path: str, timeout: httpx.Timeout, **request: Any) -> AsyncIterator[httpx.Response]:
        url = f"{self._base}{path}"
        try:
            async with (
                self._bounded(timeout),
                self._client.stream(method, url, timeout=timeout, **request) as response,
            ):
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    raise _garbage(self._base, "it is compressed although nobody asked for that")
                if response.status_code != httpx.codes.OK:
                    raise self._refusal(response.status_code, await self._read(response), response.headers.get(QUOTA, ""))
                yield response
        except (httpx.TimeoutException, TimeoutError) as error:
            raise Halt(Transient("EngineTimeout", f"{self._base} does not answer in time")) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Halt(Transient("EngineUnreachable", f"{self._base}: {str(error) or type(error).__name__}")) from error

    def parsed(self, parse: Callable[[Json], T], item: Json) -> T:
        """A body as its fact. Raises Halt for one that is not the interface's."""
        try:
            return parse(item)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _garbage(self._base, f"{type(error).__name__}: {error}") from error

    @asynccontextmanager
    async def _bounded(self, timeout: httpx.Timeout) -> AsyncIterator[None]:
        """For an engine of others, bounds of the whole request. A time-out of httpx is one of a single wait."""
        if self._turns is None:
            yield
        elif timeout is LONG_TIMEOUT:
            with self._turns.taken():
                async with asyncio.timeout(FOREIGN_LONG_S):
                    yield
        else:
            async with asyncio.timeout(FOREIGN_S):
                yield

    async def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > LARGEST:
                raise _garbage(self._base, f"it has more than {LARGEST} bytes")
        return bytes(body)

    def _refusal(self, status: int, body: bytes, quota: str = "") -> Halt:
        """The Halt that an error answer stands for: the reverse of rest/problems.py. quota: the one that was reached."""
        try:
            message = str(json.loads(body)["error"])[:_TOLD]
        except (ValueError, KeyError, TypeError, RecursionError):
            message = f"HTTP {status} without an error body"
        if quota and self._turns is None:
            return QuotaReached(quota, message)
        if self._turns is not None and status in (401, 403):
            reason = f"{self._base} refuses the password of its admin: {message}"
            return Halt(Stalled("EngineRefusesPassword", reason))
        match status:
            case 400 | 413 | 416:
                return Invalid((Problem("", message),))
            case 401:
                return Unauthorized(message)
            case 403:
                return Forbidden(message)
            case 404:
                return NotFound(message)
            case 412:
                return Conflict(message)
            case status if 300 <= status < 400:
                return _garbage(self._base, "it redirects, and redirects are not followed")
            case status:
                return Halt(Transient("EngineFailing", f"{self._base} answers {status}: {message}"))


def _garbage(base: str, message: str) -> Halt:
    return Halt(Transient("EngineAnswer", f"{base} gives an answer that does not follow the engine interface: {message[:_TOLD]}"))
