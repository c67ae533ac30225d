"""Connections to addresses that tenants declare: what rest/outbound.py checks, for httpx.

Imported by the first request, because httpx takes a twentieth of the start of a process.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from functools import cache
from typing import Any

import httpcore
import httpx

from tenantry.model.verdicts import MayAct
from tenantry.rest.outbound import Rules, addresses_of

IDLE_CONNECTIONS = 20
IDLE_S = 5.0


@cache
def _trust() -> ssl.SSLContext:
    """The trusted certificate authorities. Read once, because reading takes as long as many requests."""
    return ssl.create_default_context()


class PlainClient(httpx.AsyncClient):
    """Follows no redirect, keeps no cookie and knows no proxy. It sends nothing while `check` raises."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None, timeout: httpx.Timeout, check: MayAct | None = None) -> None:
        """transport: None for the network."""
        self._way = transport or httpx.AsyncHTTPTransport(trust_env=False)
        self._check = check
        super().__init__(transport=self._way, timeout=timeout, trust_env=False)

    async def send(self, request: httpx.Request, *, stream: bool = False, **_: Any) -> httpx.Response:
        """Raises httpx.HTTPError, and what `check` raises. httpx's own looks for what this client never does, a fifth longer."""
        if self._check is not None:
            self._check()
        answer = await self._way.handle_async_request(request)
        answer.request = request
        if not stream:
            try:
                await answer.aread()
            finally:
                await answer.aclose()
        return answer


class GuardedTransport(httpx.AsyncHTTPTransport):
    """The network, as far as the rules let it: a connection goes to the very address that was checked, or to the rules' proxy."""

    def __init__(self, rules: Rules) -> None:
        context = _trust()
        proxy = httpx.Proxy(rules.proxy) if rules.proxy else None
        super().__init__(verify=context, trust_env=False, proxy=proxy)
        if proxy is not None:
            return  # the proxy looks names up and connects: checked_url has judged the name
        # The one place where httpx takes no argument: its pool, with a way to connect of our own.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,  # who is slow takes no connection from another; the platform's workers bound them
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_Guarded(rules),
        )


class _Guarded(httpcore.AsyncNetworkBackend):
    """Resolves, checks, and connects to what it checked: nobody resolves the name again."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """To the first address that takes the connection. Raises AddressRefused, httpcore.ConnectError, ConnectTimeout."""
        try:
            addresses = await addresses_of(host, port, self._rules)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved") from error
        *others, last = addresses
        for address in others:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Never: no URL leads to a socket. Raises httpcore.ConnectError."""
        raise httpcore.ConnectError("not a network address")

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
