"""An engine's URL is a tenant's word: it makes the operator call nobody whom the tenant could not call, nor wait for ever."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.engine import wire as engine_wire
from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.engine.transport import EngineTransport
from tenantry.adapters.engine.wire import Wire
from tenantry.adapters.guarded import PlainClient
from tenantry.model.facts import EngineEndpoint, PackageFacts, Password, SecretFacts
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, Invalid
from tenantry.rest.outbound import Rules
from tests.support.hostile_addresses import RESOLVED, URLS, Listener, listener, resolver
from tests.support.waiting import eventually

__all__ = ["listener", "resolver"]
LOOPBACK = Rules(http=True, networks=(ip_network("127.0.0.0/8"),))
SECRET = Ref("Secret", "tenant-acme", "engine")


class Unused:
    """A signer that no request to an engine of others needs."""

    def sign(self, claims: Any, ttl: Any) -> str:
        raise NotImplementedError


class OneSecret:
    """The password of `admin`, and how often it was asked for."""

    def __init__(self) -> None:
        self.asked = 0

    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        self.asked += 1
        return Password(clear="the admin's password")

    def look(self, namespace: str, name: str, key: str, for_kind: str) -> SecretFacts:
        raise NotImplementedError

    async def ensure(self, ref: Ref, for_kind: str) -> None:
        raise NotImplementedError

    async def remove(self, ref: Ref) -> None:
        raise NotImplementedError


def no_package(path: Path) -> PackageFacts:
    raise NotImplementedError


@asynccontextmanager
async def engines_of(rules: Rules, folder: Path, secrets: OneSecret | None = None) -> AsyncIterator[HttpEngines]:
    engines = HttpEngines(Unused(), secrets or OneSecret(), no_package, folder, rules_for=lambda _: rules, largest=1 << 20)
    yield engines
    await engines.aclose()


def at(url: str) -> EngineEndpoint:
    return EngineEndpoint("e1", url, SECRET)


@pytest.mark.parametrize("scheme", ["https://", "http://"])
async def test_no_hostile_url_of_an_engine_leads_to_a_connection(listener: Listener, tmp_path: Path, scheme: str) -> None:
    urls = {name: url.replace("https://", scheme) for name, url in URLS.items() if name != "no encryption"}
    assert len(urls) >= 75
    made: list[Any] = []
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def watched(sock: socket.socket, address: Any) -> None:
        made.append(address)
        await connect(sock, address)

    loop.sock_connect = watched  # type: ignore[method-assign]
    async with engines_of(Rules(http=scheme == "http://"), tmp_path) as engines:
        for name, url in urls.items():
            with pytest.raises(Halt) as refused:
                await engines.at(at(url.format(port=listener.port))).apps()
            reasons = ("Invalid", "AddressRefused", "EngineUnreachable")
            assert refused.value.verdict.reason in reasons, (name, refused.value.verdict)
            assert (made, listener.connections) == ([], 0), name


async def test_the_listener_of_these_tests_is_reached_where_a_region_allows_it(listener: Listener, tmp_path: Path) -> None:
    listener.answer = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"data":[]}'
    async with engines_of(LOOPBACK, tmp_path) as engines:
        assert await engines.at(at(f"http://loop.example:{listener.port}")).apps() == ()
        assert listener.connections == 1


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.answer = b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 11\r\n\r\n{"data":[]}'
    asked: list[str] = []
    real = socket.getaddrinfo

    def turning(host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name == "turning.example":
            asked.append(name)
            # Open to the first who asks, closed to every later one: who asks twice is seen.
            monkeypatch.setitem(RESOLVED, name, ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"])
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", turning)
    async with engines_of(LOOPBACK, tmp_path) as engines:
        engine = engines.at(at(f"http://turning.example:{listener.port}"))
        assert await engine.apps() == ()
        assert (asked, listener.connections) == (["turning.example"], 1)
        with pytest.raises(Halt, match="AddressRefused"):
            await engine.apps()
        assert listener.connections == 1


async def test_a_name_with_one_closed_address_is_refused_and_the_address_is_not_told(tmp_path: Path) -> None:
    async with engines_of(Rules(), tmp_path) as engines:
        with pytest.raises(Halt) as refused:
            await engines.at(at("https://mixed.example")).apps()
        assert refused.value.verdict.message == "mixed.example leads to an address that is not public"


OK = b"HTTP/1.1 200 OK\r\n"


def endless(head: bytes) -> bytes:
    """An answer of 2.5 MiB."""
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 40


ANSWERS: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "a redirect to metadata": (
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
        "EngineAnswer",
    ),
    "a lasting redirect": (
        b"HTTP/1.1 308 P\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        "EngineAnswer",
    ),
    "too much": (lambda: endless(OK), "EngineAnswer"),
    "too much of an error": (lambda: endless(b"HTTP/1.1 500 No\r\n"), "EngineAnswer"),
    "a bomb": (
        OK + b"Content-Encoding: gzip\r\nContent-Length: 2000\r\n\r\n" + gzip.compress(b"0" * 1_900_000)[:2000],
        "EngineAnswer",
    ),
    "nested too deep": (lambda: OK + b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000, "EngineAnswer"),
    "no object": (OK + b"Content-Length: 2\r\n\r\n[]", "EngineAnswer"),
    "a page": (OK + b"Content-Length: 6\r\n\r\n<html>", "EngineAnswer"),
    "not UTF-8": (OK + b"Content-Length: 4\r\n\r\n\xff\xfe{}", "EngineAnswer"),
    "cut short": (OK + b'Content-Length: 99\r\n\r\n{"data":', "EngineUnreachable"),
    "cut off in the first line": (b"HTTP/1.1 2", "EngineUnreachable"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9\r\n\r\n", "EngineUnreachable"),
    "a header without an end": (lambda: OK + b"X: " + b"a" * 200_000, "EngineUnreachable"),
    "nothing": (b"", "EngineTimeout"),
    "half an answer": (b"H", "EngineTimeout"),
}


@pytest.mark.parametrize(("answer", "reason"), ANSWERS.values(), ids=ANSWERS)
async def test_each_hostile_answer_ends_soon_and_is_told(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | Callable[[], bytes], reason: str
) -> None:
    monkeypatch.setattr(engine_wire, "LARGEST", 1 << 20)
    monkeypatch.setattr(engine_wire, "FOREIGN_S", 0.3 if reason == "EngineTimeout" else 10.0)
    listener.answer = answer() if callable(answer) else answer
    async with engines_of(LOOPBACK, tmp_path) as engines:
        with pytest.raises(Halt) as ended:
            await engines.at(at(f"http://127.0.0.1:{listener.port}")).apps()
        assert ended.value.verdict.reason == reason
        assert len(ended.value.verdict.message) < 2500
        assert listener.connections == 1


@pytest.mark.parametrize(("answer", "reason"), ANSWERS.values(), ids=ANSWERS)
async def test_each_is_told_the_same_of_an_engine_of_ours_on_a_cluster(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | Callable[[], bytes], reason: str
) -> None:
    monkeypatch.setattr(engine_wire, "LARGEST", 1 << 20)
    listener.answer = answer() if callable(answer) else answer
    patience = httpx.Timeout(0.3 if reason == "EngineTimeout" else 10.0)

    async def token() -> str:
        return "Bearer of-the-operator"

    async with PlainClient(EngineTransport(), patience) as client:
        wire = Wire(client, f"http://127.0.0.1:{listener.port}/api/v1", token)
        with pytest.raises(Halt) as ended:
            await wire.call("GET", "/admin/apps", patience)
        assert ended.value.verdict.reason == reason
        assert len(ended.value.verdict.message) < 2500
        assert listener.connections <= 2  # aiohttp asks once more after a connection that broke before an answer


async def test_a_download_has_an_end_and_leaves_nothing(listener: Listener, tmp_path: Path) -> None:
    listener.answer = endless(OK)
    async with engines_of(LOOPBACK, tmp_path) as engines:
        with pytest.raises(Halt, match="more than 1048576 bytes"):
            await engines.at(at(f"http://127.0.0.1:{listener.port}")).download("crm", "1.0.0")
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def connected(listener: Listener, times: int) -> None:
    await eventually(lambda: listener.connections >= times, shows=lambda: listener.connections)


async def test_long_requests_of_one_tenant_leave_workers_to_others(listener: Listener, tmp_path: Path) -> None:
    listener.answer = b""
    async with engines_of(LOOPBACK, tmp_path) as engines, asyncio.TaskGroup() as group:
        engine = engines.at(at(f"http://127.0.0.1:{listener.port}"))
        held = [group.create_task(engine.install("crm", "1")) for _ in range(engine_wire.LONG_AT_ONCE)]
        await connected(listener, len(held))
        with pytest.raises(Halt, match="EngineBusy"):
            await engine.install("crm", "1")
        elsewhere = EngineEndpoint("e2", f"http://127.0.0.1:{listener.port}", Ref("Secret", "tenant-umbra", "engine"))
        other = group.create_task(engines.at(elsewhere).install("crm", "1"))
        await connected(listener, len(held) + 1)
        for each in (*held, other):
            each.cancel()


async def test_a_cookie_of_one_engine_is_not_kept(listener: Listener, tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"data":[]}'
        writer.write(OK + b"Set-Cookie: a=b\r\nConnection: close\r\nContent-Length: 11\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    async with engines_of(LOOPBACK, tmp_path) as engines:
        for _ in range(2):
            await engines.at(at(f"http://127.0.0.1:{port}")).apps()
    server.close()
    assert [b"cookie" in each.lower() for each in seen] == [False, False]


async def test_a_url_that_is_refused_names_the_field(tmp_path: Path) -> None:
    secrets = OneSecret()
    async with engines_of(Rules(), tmp_path, secrets) as engines:
        with pytest.raises(Invalid, match=r"^Invalid: spec\.engine\.external\.url: 10\.0\.0\.1 is not a public address$"):
            await engines.at(at("https://10.0.0.1/")).apps()
    assert secrets.asked == 0  # and its password is not even read
