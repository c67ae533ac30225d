"""No declared address leads the platform to itself, to its network or to a cloud's metadata: not one connection is made."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from tenantry.model.verdicts import Halt, Invalid
from tenantry.rest.outbound import LARGEST, Outbound, Rules, Unreachable, is_public
from tests.campaigns.tried import Tried
from tests.support.hostile_addresses import RESOLVED, URLS, Listener, listener, resolver

__all__ = ["listener", "resolver"]

LOOPBACK = Rules(http=True, networks=(ip_network("127.0.0.0/8"),))


async def test_no_hostile_url_leads_to_a_connection(listener: Listener, tried: Tried) -> None:
    assert len(URLS) >= 90
    made: list[Any] = []
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def watched(sock: socket.socket, address: Any) -> None:
        made.append(address)
        await connect(sock, address)

    loop.sock_connect = watched  # type: ignore[method-assign]
    for name, url in URLS.items():
        with pytest.raises((Invalid, Unreachable)):
            await Outbound(timeout_s=5).get(url.format(port=listener.port), "issuer_url")
            pytest.fail(f"{name}: answered")
        assert (made, listener.connections) == ([], 0), name
        tried()


async def test_the_listener_of_these_tests_is_reached_where_a_setting_allows_it(listener: Listener) -> None:
    answer = await Outbound(LOOPBACK).get(f"http://loop.example:{listener.port}/")
    assert (answer.status, answer.body, listener.connections) == (200, b"{}", 1)
    with pytest.raises(Invalid, match="::1 is not a public address"):
        await Outbound(LOOPBACK).get(f"http://[::1]:{listener.port}/")


async def test_a_name_that_resolves_anew_is_judged_by_the_address_that_is_connected_to(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, tried: Tried
) -> None:
    monkeypatch.setitem(RESOLVED, "rebinding.example", ["93.184.216.34"])
    assert socket.getaddrinfo("rebinding.example", 443)[0][4][0] == "93.184.216.34"  # what a look before would see
    monkeypatch.setitem(RESOLVED, "rebinding.example", ["127.0.0.1"])
    with pytest.raises(Unreachable, match="not a public address"):
        await Outbound().get(f"https://rebinding.example:{listener.port}/")
    assert listener.connections == 0
    tried()


ANSWERS: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "a redirect": (
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        "redirects are not followed",
    ),
    "a permanent redirect": (
        b"HTTP/1.1 308 P\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
        "redirects are not followed",
    ),
    "too much, as announced": (
        lambda: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (LARGEST + 1) + b"x" * (LARGEST + 1),
        "more than",
    ),
    "too much, in chunks": (
        lambda: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20,
        "more than",
    ),
    "compressed": (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", "compresses its answer"),
    "cut short": (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", "cannot be reached"),
    "garbage": (b"SSH-2.0-OpenSSH\r\n\r\n", "cannot be reached"),
    "a header without an end": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, "cannot be reached"),
    "no answer": (b"", "takes too long"),
    "half an answer": (b"H", "takes too long"),
}


@pytest.mark.slow
async def test_each_hostile_answer_ends_soon(listener: Listener) -> None:
    for name, (given, told) in ANSWERS.items():
        listener.answer = answer = given() if callable(given) else given
        with pytest.raises(Halt) as refused:
            await Outbound(LOOPBACK, timeout_s=1 if len(answer) < 20 else 10).get(f"http://127.0.0.1:{listener.port}/")
        assert told in refused.value.verdict.message, name


PUBLIC = (
    "93.184.216.34",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2001:4860::8888",
    "3ffe::1",
)
CLOSED = (
    "192.0.0.192",
    "100.127.255.255",
    "224.0.0.1",
    "::",
    "::ffff:8.8.8.8",
    "2001:1ff::1",
    "2002::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
)


def test_which_addresses_are_public() -> None:
    assert [text for text in (*PUBLIC, *CLOSED) if is_public(ip_address(text))] == list(PUBLIC)
