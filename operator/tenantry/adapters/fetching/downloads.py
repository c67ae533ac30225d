"""Answers of hosts that tenants declare packages at: each hop guarded, no cookies, no proxies, no credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from tenantry.model.verdicts import Halt, Invalid, Stalled, Transient
from tenantry.rest.outbound import AddressRefused, Rules, checked_url

if TYPE_CHECKING:
    import httpx

REDIRECTS = 5
TIMEOUT_S, CONNECT_S = 30.0, 10.0
"""Of a single wait, and of a connection; who asks bounds the whole."""
CHUNK = 1 << 20
_REDIRECTIONS = frozenset({301, 302, 303, 307, 308})
_TOLD = 200


class Blob(NamedTuple):
    """The URL of a file, and the headers that its request needs."""

    url: str
    headers: dict[str, str]


def failed(message: str) -> Halt:
    """It may be had later."""
    return Halt(Transient("FetchFailed", message))


def refused(message: str) -> Halt:
    """The declared place, or one that it leads to, is none that may be asked."""
    return Halt(Stalled("FetchRefused", message))


class Downloads:
    """Asks what the rules let it. `guard`: what connects; None: a GuardedTransport. Tests have their own."""

    def __init__(self, rules: Rules, guard: Callable[[Rules], httpx.AsyncBaseTransport] | None = None) -> None:
        self.rules = rules
        self._guard = guard

    @asynccontextmanager
    async def open(self, url: str, field: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[httpx.Response]:
        """Yield the answer of a URL, whatever its status, with its body not yet read. `field` names the field that a refusal
        blames.

        Raises a Stalled Halt (FetchRefused) or a Transient one (FetchFailed), also for errors inside the block.
        """
        import httpx

        from tenantry.adapters.guarded import GuardedTransport, PlainClient

        host, timeout = "", httpx.Timeout(TIMEOUT_S, connect=CONNECT_S)
        # Each download has its own client, so that two tenants never share a connection.
        async with PlainClient((self._guard or GuardedTransport)(self.rules), timeout) as client:
            try:
                host = self._checked(url, field)
                response = await self._follow(
                    client, url, {"Accept-Encoding": "identity", "User-Agent": "tenantry", **(headers or {})}
                )
                try:
                    yield response
                finally:
                    await response.aclose()
            except AddressRefused as closed:
                raise refused(closed.verdict.message) from closed
            except httpx.TimeoutException as error:
                raise failed(f"{host} does not answer in time") from error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise failed(f"{host}: {str(error)[:_TOLD] or type(error).__name__}") from error

    def _checked(self, url: str, field: str) -> str:
        """The host of a URL that may be asked."""
        try:
            return checked_url(url, self.rules, field).host or ""
        except Invalid as invalid:
            raise refused(invalid.verdict.message) from invalid

    async def _follow(self, client: httpx.AsyncClient, url: str, headers: dict[str, str]) -> httpx.Response:
        from httpx import URL

        at = URL(url)
        for _ in range(REDIRECTS + 1):
            response = await client.send(client.build_request("GET", at, headers=headers), stream=True)
            if response.status_code not in _REDIRECTIONS:
                return await _plain(response)
            await response.aclose()
            leads_to = at.join(response.headers.get("Location", ""))
            self._checked(str(leads_to), f"the redirect of {at.host}")
            if _origin(leads_to) != _origin(at):
                headers.pop("Authorization", None)
            at = leads_to
        raise failed(f"{at.host} redirects more than {REDIRECTS} times")


async def body_of(response: httpx.Response, largest: int) -> bytes:
    """A short body. Raises a Transient Halt (FetchFailed) above `largest` bytes."""
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > largest:
            raise failed(f"{response.url.host} answers more than {largest} bytes")
    return bytes(body)


async def _plain(response: httpx.Response) -> httpx.Response:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        await response.aclose()
        raise failed(f"{response.url.host} compresses its answer although nobody asked for that")
    return response


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
