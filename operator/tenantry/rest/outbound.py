"""The one guarded client for addresses that tenants declare: it never reaches this host, its network or a cloud's metadata.

What is checked is the address that is connected to, when its socket is made: a name that resolves anew, a number that some
resolver takes for an address, and an address in another's clothes come to the same check.

By a proxy it is the proxy that looks names up and connects: here only the name is checked, and it is the proxy's part to keep
its own network closed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Any

from tenantry.model.verdicts import Halt, Transient
from tenantry.rest.bodies import invalid

if TYPE_CHECKING:
    from yarl import URL

TIMEOUT_S = 10.0
LARGEST = 1 << 20
"""Bytes of an answer."""
LONGEST_URL = 2048
LOCAL_NAMES = (".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".home.arpa", ".corp", ".svc")
"""Ends of names that mean something inside a network only, those of a cluster's Services among them."""
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


class AddressRefused(Halt):
    """A name resolves to a forbidden address. The error hides the address, because names of the platform's own network are
    private."""

    def __init__(self, host: str) -> None:
        super().__init__(Transient("AddressRefused", f"{host} leads to an address that is not public"))


@dataclass(frozen=True)
class Rules:
    """Further addresses that may be reached. http: also unencrypted; networks: although they are not public, such as 10.1.0.0/16.

    proxy: the URL of the proxy by which everything is reached, `""` for none. It gets CONNECT only: https stays end to end.
    """

    http: bool = False
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    proxy: str = ""


@dataclass(frozen=True)
class FetchedAnswer:
    """A whole answer."""

    status: int
    body: bytes


def is_public(address: Address) -> bool:
    """Return True for a public address of the Internet."""
    if isinstance(address, IPv6Address) and address not in _OPEN_V6:
        return False  # mapped, translated, local, multicast: whatever they lead to
    return not any(address in network for network in _CLOSED if network.version == address.version)


def checked_url(text: str, rules: Rules, field: str = "url") -> URL:
    """The URL, sound in itself. Raises Invalid naming `field`: the scheme, credentials, a fragment or an odd host."""
    if not text or len(text) > LONGEST_URL or not text.isascii() or not text.isprintable() or set(text) & set(' "<>\\^`{|}'):
        raise invalid(field, f"must be a URL of at most {LONGEST_URL} printable ASCII characters")
    from yarl import URL

    try:
        url = URL(text)
        port = url.explicit_port
    except ValueError as error:
        raise invalid(field, f"is not a URL: {error}") from None
    if url.scheme != "https" and not (rules.http and url.scheme == "http" and not rules.proxy):
        raise invalid(field, "must begin with https://")
    if not url.raw_host or url.raw_user is not None or url.raw_password is not None or "#" in text or port == 0:
        raise invalid(field, "must name a host, and no user, password or fragment")
    literal = literal_of(url.raw_host)
    if literal is None and (url.raw_host.rstrip(".").rpartition(".")[2][:1].isdigit() or "%" in url.raw_host):
        raise invalid(field, "names its host by a number that is not an address")
    if literal is not None and not allowed(literal, rules):
        raise invalid(field, f"{literal} is not a public address")
    if literal is None and rules.proxy and _is_local(url.raw_host):
        raise invalid(field, f"{url.raw_host} is not a public host name")
    return url


def _is_local(host: str) -> bool:
    name = host.rstrip(".").lower()
    return "." not in name or name.endswith(LOCAL_NAMES)


async def addresses_of(host: str, port: int, rules: Rules) -> tuple[str, ...]:
    """Return the addresses of a name, by the system's resolver. Raises OSError, AddressRefused when one of its addresses is
    forbidden."""
    loop, kind = asyncio.get_running_loop(), socket.SOCK_STREAM
    found = await loop.run_in_executor(_LOOKUPS, lambda: socket.getaddrinfo(host, port, type=kind))
    addresses = tuple(dict.fromkeys(str(target[0]) for *_, target in found))
    for text in addresses:
        address = literal_of(text)
        if address is None or not allowed(address, rules):
            raise AddressRefused(host)
    return addresses


def address_of(host: str, port: int, rules: Rules) -> str:
    """The same for one connection: its address. Blocks. Raises Unreachable, AddressRefused."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"{host} has no address: {told(error)}") from error
    addresses = [str(target[0]) for *_, target in found]
    if not all((known := literal_of(text)) is not None and allowed(known, rules) for text in addresses):
        raise AddressRefused(host)
    return addresses[0]


class Outbound:
    """Fetches what a declared URL names. No redirects, no cookies, no proxy but that of the rules; bounded in time and size."""

    def __init__(self, rules: Rules | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.rules = rules or Rules()
        self.timeout_s = timeout_s

    async def get(self, url: str, field: str = "url") -> FetchedAnswer:
        """Raises Invalid for a URL that is refused, Unreachable."""
        return await self._fetch("GET", url, field, None, {})

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str], field: str = "url") -> FetchedAnswer:
        """Raises Invalid for a URL that is refused, Unreachable."""
        return await self._fetch("POST", url, field, form, headers)

    async def _fetch(
        self, method: str, text: str, field: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> FetchedAnswer:
        url = checked_url(text, self.rules, field)
        # In a thread, because the client takes 0.1 s to import. Processes that fetch nothing do without its 8 MiB.
        session = await asyncio.to_thread(import_module, "tenantry.rest.fetching.session")
        answer: FetchedAnswer = await session.fetch(self, method, url, form, headers)
        return answer

    def open_socket(self, info: tuple[int, int, int, str, Sequence[Any]]) -> socket.socket:
        """Return a socket to the address of `info`. Raises Unreachable for one that is not allowed."""
        family, kind, protocol, _, target = info
        address = literal_of(str(target[0]))
        if address is None or not allowed(address, self.rules):
            raise Unreachable(f"{target[0]} is not a public address")
        return socket.socket(family, kind, protocol)


def literal_of(host: str) -> Address | None:
    """Return the address that a host spells, None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def allowed(address: Address, rules: Rules) -> bool:
    """Return True for an address that may be connected to."""
    if any(address in network for network in rules.networks if network.version == address.version):
        return True
    return is_public(address)


def told(error: Exception) -> str:
    """Return an error of the network as words."""
    return "it takes too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
