"""Connections of one address do not shut others out, idle ones make room, and only named proxies speak for their clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tenantry.cli.clients.sockets import listening
from tenantry.cli.processes.http import connections, slow_clients
from tenantry.cli.processes.serving import KEEP_ALIVE_S, serving
from tenantry.settings import HttpSettings

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
NEVER_S = KEEP_ALIVE_S - 15.0
"""Time after which nothing more happens. Idle connections end by themselves only later."""
Endpoint = Callable[[Request], Awaitable[Response]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
def heads_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is closed has made room: its head was not late."""
    monkeypatch.setattr(slow_clients, "HEAD_S", 3600.0)


async def seen(request: Request) -> Response:
    client = request.client.host if request.client else ""
    return JSONResponse({"client": client, "scheme": request.url.scheme})


@asynccontextmanager
async def world(http: HttpSettings, endpoint: Endpoint = seen) -> AsyncIterator[int]:
    bound = listening("127.0.0.1", 0)
    async with serving(Starlette(routes=[Route("/", endpoint)]), bound, http):
        yield bound.getsockname()[1]


async def connected(port: int, address: str) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))


async def asked(streams: Streams) -> bytes:
    reader, writer = streams
    writer.write(GET)
    async with asyncio.timeout(NEVER_S):
        return await reader.read(12)


async def is_closed(streams: Streams) -> bool:
    try:
        async with asyncio.timeout(NEVER_S):
            return await streams[0].read() == b""
    except ConnectionError:
        return True


async def test_an_address_at_its_limit_loses_its_own_oldest_idle_connection() -> None:
    async with world(HttpSettings(per_address=5)) as port:
        held = [await connected(port, "127.0.0.2") for _ in range(5)]
        assert await asked(held[0]) == b"HTTP/1.1 200"
        other = await connected(port, "127.0.0.3")
        one_more = await connected(port, "127.0.0.2")
        assert await asked(one_more) == b"HTTP/1.1 200"
        assert await is_closed(held[0])
        assert await asked(held[1]) == await asked(other) == b"HTTP/1.1 200"


async def test_a_full_server_takes_the_place_from_whoever_holds_most() -> None:
    async with world(HttpSettings(connections=6, per_address=5)) as port:
        held = [await connected(port, "127.0.0.2") for _ in range(5)]
        few = await connected(port, "127.0.0.3")
        newcomer = await connected(port, "127.0.0.4")
        assert await asked(newcomer) == b"HTTP/1.1 200"
        assert await asked(few) == b"HTTP/1.1 200"
        assert await is_closed(held[0])


async def test_who_finds_no_room_reads_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_PARTING", 1)
    asks, enough = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request: Request) -> Response:
        asks.release()
        await enough.wait()
        return Response()

    async with world(HttpSettings(per_address=2), wait) as port:
        busy = [await connected(port, "127.0.0.2") for _ in range(2)]
        answers = [asyncio.create_task(asked(each)) for each in busy]
        async with asyncio.timeout(NEVER_S):
            await asks.acquire()
            await asks.acquire()
        reader, writer = await connected(port, "127.0.0.2")
        writer.write(GET + b"x" * 100_000)
        answer = (await reader.read()).decode()
        assert answer.startswith("HTTP/1.1 503 ") and "retry-after: 1" in answer
        assert answer.endswith('{"error":"too many connections at once; try again shortly"}')
        assert await is_closed(await connected(port, "127.0.0.2")), "one at a time is told"
        enough.set()
        assert await asyncio.gather(*answers) == [b"HTTP/1.1 200"] * 2


HEADERS = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
PROXIES = {
    "none is named": ("", {"client": "127.0.0.1", "scheme": "http"}),
    "another is named": ("10.0.0.0/8", {"client": "127.0.0.1", "scheme": "http"}),
    "it is named": ("10.0.0.0/8,127.0.0.0/8", {"client": "203.0.113.7", "scheme": "https"}),
}


@pytest.mark.parametrize(("proxies", "told"), PROXIES.values(), ids=PROXIES)
async def test_only_a_named_proxy_is_believed(proxies: str, told: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    async with world(HttpSettings(proxies=proxies)) as port, httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{port}/", headers=HEADERS)).json() == told
