"""A tenant names the host of a package, and a stranger answers there: neither leads the platform inside."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest

from tenantry.adapters.fetching.downloads import Downloads
from tenantry.adapters.fetching.registry import find_package
from tenantry.adapters.guarded import GuardedTransport
from tenantry.model.verdicts import Halt
from tenantry.rest.outbound import Rules
from tests.campaigns.tried import Tried
from tests.support.hostile_addresses import URLS, Listener, listener, resolver

__all__ = ["listener", "resolver"]
START = "start.example"


class Leading(httpx.AsyncBaseTransport):
    """The guarded network, and in it a host that answers everything with a given answer."""

    def __init__(self, rules: Rules, status: int, headers: dict[str, str]) -> None:
        self._network = GuardedTransport(rules)
        self._status = status
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == START:
            return httpx.Response(self._status, headers=self._headers)
        return await self._network.handle_async_request(request)


async def declared(url: str) -> None:
    async with Downloads(Rules()).open(url, "spec.source.url"):
        pass


async def redirected(url: str) -> None:
    async with Downloads(Rules(), lambda rules: Leading(rules, 302, {"Location": url})).open(f"https://{START}/", "url"):
        pass


async def given_as_a_realm(url: str) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{url}"'}
    await find_package(Downloads(Rules(), lambda rules: Leading(rules, 401, challenge)), f"{START}/crm:1", "ab" * 32)


@pytest.mark.parametrize("leads", [declared, redirected, given_as_a_realm])
async def test_no_hostile_url_leads_to_a_connection(leads: Any, listener: Listener, tried: Tried) -> None:
    made: list[Any] = []
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def watched(sock: socket.socket, address: Any) -> None:
        made.append(address)
        await connect(sock, address)

    loop.sock_connect = watched  # type: ignore[method-assign]
    refused = 0
    for name, url in URLS.items():
        with pytest.raises(Halt) as halted:
            await leads(url.format(port=listener.port))
        reason = halted.value.verdict.reason
        assert reason in ("FetchRefused", "FetchFailed"), (name, halted.value.verdict)
        refused += reason == "FetchRefused"
        assert (made, listener.connections) == ([], 0), name
        tried()
    assert refused >= 75
