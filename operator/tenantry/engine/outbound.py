"""The one guarded client for addresses that tenants declare: it never reaches this host, its network or a cloud's metadata.

What is checked is the address that is connected to, when its socket is made: a name that resolves anew, a number that some
resolver takes for an address, and an address in another's clothes come to the same check.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import aiohttp
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from tenantry.model.verdicts import Halt, Transient
from tenantry.rest.bodies import invalid

TIMEOUT_S = 10.0
LARGEST = 1 << 20
"""Bytes of an answer."""
LONGEST_URL = 2048
_OPEN_V6 = IPv6Network("2000::/3")
# Spelled out, for the interpreter's own list changes between its releases. Beyond IANA's registries: one cloud's own host.
_CLOSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
)  # fmt: skip

Address = IPv4Address | IPv6Address

# Of their own: a name server that does not answer holds up other look-ups, and nothing else of the process.
_LOOKUPS = ThreadPoolExecutor(8, "outbound-lookup")


class Unreachable(Halt):
    """The address is refused, or did not answer as it should."""

    def __init__(self, message: str) -> None:
        super().__init__(Transient("OutboundFailed", message))


class Refused(Halt):
    """A name leads to a closed address. Which one is not told: names of the platform's own network are nobody's business."""

    def __init__(self, host: str) -> None:
        super().__init__(Transient("AddressRefused", f"{host} leads to an address that is not public"))


@dataclass(frozen=True)
class Rules:
    """What else may be reached. http: also unencrypted; networks: although they are not public, such as 10.1.0.0/16."""

    http: bool = False
    networks: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes


def is_public(address: Address) -> bool:
    """Is it an address of the Internet at large?"""
    if isinstance(address, IPv6Address) and address not in _OPEN_V6:
        return False  # mapped, translated, local, multicast: whatever they lead to
    return not any(address in network for network in _CLOSED if network.version == address.version)


def checked_url(text: str, rules: Rules, field: str = "url") -> URL:
    """The URL, sound in itself. Raises Invalid naming `field`: the scheme, credentials, a fragment or an odd host."""
    if not text or len(text) > LONGEST_URL or not text.isascii() or not text.isprintable() or set(text) & set(' "<>\\^`{|}'):
        raise invalid(field, f"must be a URL of at most {LONGEST_URL} printable ASCII characters")
    try:
        url = URL(text)
        port = url.explicit_port
    except ValueError as error:
        raise invalid(field, f"is no URL: {error}") from None
    if url.scheme != "https" and not (rules.http and url.scheme == "http"):
        raise invalid(field, "must begin with https://")
    if not url.raw_host or url.raw_user is not None or url.raw_password is not None or "#" in text or port == 0:
        raise invalid(field, "must name a host, and no user, password or fragment")
    literal = _literal(url.raw_host)
    if literal is None and (url.raw_host.rstrip(".").rpartition(".")[2][:1].isdigit() or "%" in url.raw_host):
        raise invalid(field, "names its host by a number that is no address")
    if literal is not None and not _allowed(literal, rules):
        raise invalid(field, f"{literal} is not a public address")
    return url


async def addresses_of(host: str, port: int, rules: Rules) -> tuple[str, ...]:
    """Where a name leads, by the system's resolver. Raises OSError, Refused when one of its addresses is closed."""
    loop, kind = asyncio.get_running_loop(), socket.SOCK_STREAM
    found = await loop.run_in_executor(_LOOKUPS, lambda: socket.getaddrinfo(host, port, type=kind))
    addresses = tuple(dict.fromkeys(str(target[0]) for *_, target in found))
    for text in addresses:
        address = _literal(text)
        if address is None or not _allowed(address, rules):
            raise Refused(host)
    return addresses


class Outbound:
    """Fetches what a declared URL names. No redirects, no cookies, no proxies; bounded in time and size."""

    def __init__(self, rules: Rules | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.rules = rules or Rules()
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def get(self, url: str, field: str = "url") -> Answer:
        """Raises Invalid for a URL that is refused, Unreachable."""
        return await self._fetch("GET", url, field, None, {})

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str], field: str = "url") -> Answer:
        """Raises Invalid for a URL that is refused, Unreachable."""
        return await self._fetch("POST", url, field, form, headers)

    async def _fetch(
        self, method: str, text: str, field: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> Answer:
        url = checked_url(text, self.rules, field)
        plain = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "tenantry", **headers}
        connector = aiohttp.TCPConnector(
            resolver=_CheckedResolver(self.rules), use_dns_cache=False, force_close=True, socket_factory=self._socket
        )
        try:
            # A session of its own for each: what one tenant declares shares no connection with another's.
            async with (
                aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as session,
                session.request(method, url, data=form, headers=plain, allow_redirects=False, timeout=self._timeout) as response,
            ):
                return Answer(_plain(response, url), await _read(response, url))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(f"{url.host} cannot be reached: {_told(error)}") from error

    def _socket(self, info: tuple[int, int, int, str, Sequence[Any]]) -> socket.socket:
        family, kind, protocol, _, target = info
        address = _literal(str(target[0]))
        if address is None or not _allowed(address, self.rules):
            raise Unreachable(f"{target[0]} is not a public address")
        return socket.socket(family, kind, protocol)


class _CheckedResolver(ThreadedResolver):
    """Refuses a name with any address that is not public: which of them a connection takes is chance."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        found = await super().resolve(host, port, family)
        for one in found:
            address = _literal(one["host"])
            if address is None or not _allowed(address, self._rules):
                raise Unreachable(f"{host} is at {one['host']}, which is not a public address")
        return found


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _allowed(address: Address, rules: Rules) -> bool:
    if any(address in network for network in rules.networks if network.version == address.version):
        return True
    return is_public(address)


def _plain(response: aiohttp.ClientResponse, url: URL) -> int:
    if 300 <= response.status < 400:
        raise Unreachable(f"{url.host} redirects elsewhere, which is not followed")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Unreachable(f"{url.host} compresses its answer, unasked")
    return response.status


async def _read(response: aiohttp.ClientResponse, url: URL) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > LARGEST:
            raise Unreachable(f"{url.host} answers more than {LARGEST} bytes")
        parts.append(part)
    return b"".join(parts)


def _told(error: Exception) -> str:
    return "it takes too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
