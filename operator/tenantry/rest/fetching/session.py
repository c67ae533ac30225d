"""The HTTP client of rest/outbound.py, which imports this module when something is fetched for the first time."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import aiohttp
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from tenantry.rest.outbound import LARGEST, FetchedAnswer, Outbound, Rules, Unreachable, allowed, literal_of, told


async def fetch(by: Outbound, method: str, url: URL, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> FetchedAnswer:
    """The answer of a checked URL. Raises Unreachable."""
    plain = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "tenantry", **headers}
    timeout = aiohttp.ClientTimeout(total=by.timeout_s)
    try:
        # Each fetch has its own session, so that two tenants never share a connection.
        async with (
            aiohttp.ClientSession(
                connector=_connector(by), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            ) as session,
            session.request(
                method, url, data=form, headers=plain, allow_redirects=False, timeout=timeout, proxy=by.rules.proxy or None
            ) as response,
        ):
            return FetchedAnswer(_plain(response, url), await _read(response, url))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unreachable(f"{url.host} cannot be reached: {told(error)}") from error


def _connector(by: Outbound) -> aiohttp.TCPConnector:
    if by.rules.proxy:
        return aiohttp.TCPConnector(force_close=True)  # it connects to the proxy, which is ours
    return aiohttp.TCPConnector(
        resolver=CheckedResolver(by.rules), use_dns_cache=False, force_close=True, socket_factory=by.open_socket
    )


class CheckedResolver(ThreadedResolver):
    """Refuses a name with any address that is not public: which of them a connection takes is chance."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        found = await super().resolve(host, port, family)
        for one in found:
            address = literal_of(one["host"])
            if address is None or not allowed(address, self._rules):
                raise Unreachable(f"{host} is at {one['host']}, which is not a public address")
        return found


def _plain(response: aiohttp.ClientResponse, url: URL) -> int:
    if 300 <= response.status < 400:
        raise Unreachable(f"{url.host} redirects, and redirects are not followed")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Unreachable(f"{url.host} compresses its answer although nobody asked for that")
    return response.status


async def _read(response: aiohttp.ClientResponse, url: URL) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > LARGEST:
            raise Unreachable(f"{url.host} answers more than {LARGEST} bytes")
        parts.append(part)
    return b"".join(parts)
