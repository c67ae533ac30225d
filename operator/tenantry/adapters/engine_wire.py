"""Requests to an engine over HTTP, and its errors as Halts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from tenantry.model.verdicts import Conflict, Forbidden, Halt, Invalid, NotFound, Problem, Transient, Unauthorized

TIMEOUT = httpx.Timeout(30.0, connect=5.0)
LONG_TIMEOUT = httpx.Timeout(600.0, connect=5.0)
"""For what may migrate data or send a whole package."""
Json = Mapping[str, Any]
T = TypeVar("T")


class Wire:
    """Requests to one engine, and its errors as Halts."""

    def __init__(self, client: httpx.AsyncClient, base: str, authorization: Callable[[], Awaitable[str]]) -> None:
        self._client = client
        self._base = base
        self._authorization = authorization

    async def call(self, method: str, path: str, timeout: httpx.Timeout = TIMEOUT, **request: Any) -> Json:
        """The JSON object that the engine answers. Raises Halt."""
        async with self.stream(method, path, timeout, **request) as response:
            try:
                await response.aread()
                value = response.json()
            except (httpx.HTTPError, ValueError) as error:
                raise _garbage(self._base, str(error)) from error
        if not isinstance(value, dict):
            raise _garbage(self._base, "its answer is not an object")
        return value

    async def data(self, path: str) -> list[Any]:
        """The list that the engine answers in `data`. Raises Halt."""
        items = (await self.call("GET", path)).get("data")
        if not isinstance(items, list):
            raise _garbage(self._base, f"{path} has no list in data")
        return items

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, timeout: httpx.Timeout = TIMEOUT, **request: Any
    ) -> AsyncIterator[httpx.Response]:
        """The successful answer, its body not yet read. Raises Halt."""
        headers = {"Authorization": await self._authorization()}
        url = f"{self._base}{path}"
        try:
            async with self._client.stream(method, url, headers=headers, timeout=timeout, **request) as response:
                if response.status_code != httpx.codes.OK:
                    raise await _refusal(self._base, response)
                yield response
        except httpx.TimeoutException as error:
            raise Halt(Transient("EngineTimeout", f"{self._base} does not answer in time")) from error
        except httpx.HTTPError as error:
            raise Halt(Transient("EngineUnreachable", f"{self._base}: {error or type(error).__name__}")) from error

    def parsed(self, parse: Callable[[Json], T], item: Json) -> T:
        """A body as its fact. Raises Halt for one that is not the interface's."""
        try:
            return parse(item)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _garbage(self._base, f"{type(error).__name__}: {error}") from error


async def _refusal(base: str, response: httpx.Response) -> Halt:
    """The Halt that an error answer stands for: the reverse of rest/problems.py."""
    try:
        message = str((await response.aread()) and response.json()["error"])
    except (ValueError, KeyError, TypeError):
        message = f"HTTP {response.status_code} without an error body"
    match response.status_code:
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
        case status:
            return Halt(Transient("EngineFailing", f"{base} answers {status}: {message}"))


def _garbage(base: str, message: str) -> Halt:
    return Halt(Transient("EngineAnswer", f"{base} gives an answer that is not the interface's: {message}"))
