"""200 clients at once that dawdle, lie or never end: each is closed soon, memory stays bounded, and others do not notice."""

from __future__ import annotations

import asyncio
import math
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.processes.freed_memory import resident
from tenantry.cli.processes.http import slow_clients
from tenantry.cli.processes.serving import serving
from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import Password
from tenantry.packages.build import build
from tenantry.rest import bodies
from tenantry.rest.uploads import Uploads
from tests.campaigns.tried import Tried
from tests.scenario.data_world import MANIFEST
from tests.security.working_time import working_time
from tests.support.waiting import eventually

Plan = Callable[[str], Iterator[bytes]]
"""The bytes of a client, piece by piece, one each PACE_S; it reads nothing. Given the headers of a signed-in client."""
CLIENTS = 200
PACE_S = 0.05
MEMORY = 96 << 20
NEVER_S = 120.0
"""Time on the wall after which nothing more happens. Bounds are held by `working_time`."""
HEAD = "Host: engine\r\n"
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"
PARTS = "Content-Type: multipart/form-data; boundary=B\r\n"
UPLOAD = "POST /api/v1/admin/apps/upload HTTP/1.1\r\n"
SIGN_IN = f"POST /api/v1/auth/token HTTP/1.1\r\n{HEAD}{FORM}"


def once(text: str | bytes | Callable[[], str | bytes]) -> Plan:
    """Plan one piece; a function makes what is large."""

    def plan(signed: str) -> Iterator[bytes]:
        whole = text() if callable(text) else text
        yield whole.replace("SIGNED", signed).encode() if isinstance(whole, str) else whole

    return plan


def drop_by_drop(start: str, drop: bytes, end: int = 10_000) -> Plan:
    def plan(signed: str) -> Iterator[bytes]:
        yield start.replace("SIGNED", signed).encode()
        for _ in range(end):
            yield drop

    return plan


def upload(start: bytes, drop: bytes, drops: int = 10_000) -> Plan:
    def plan(signed: str) -> Iterator[bytes]:
        yield f"{UPLOAD}{HEAD}{signed}{PARTS}Content-Length: 900000000\r\n\r\n".encode() + start
        for _ in range(drops):
            yield drop

    return plan


FILE = b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
PLANS: dict[str, Plan] = {
    "says nothing": lambda signed: iter([]),
    "half a request line": once("GET /heal"),
    "a request line by the byte": drop_by_drop("GET /", b"a"),
    "a header by the byte": drop_by_drop(f"GET /healthz HTTP/1.1\r\n{HEAD}X: ", b"a"),
    "headers by the line, without end": drop_by_drop(f"GET /healthz HTTP/1.1\r\n{HEAD}", b"X: a\r\n"),
    "a header of four megabytes": drop_by_drop(f"GET /healthz HTTP/1.1\r\n{HEAD}X: ", b"a" * (1 << 18), 16),
    "100,000 headers": once(lambda: f"GET /healthz HTTP/1.1\r\n{HEAD}" + "X: a\r\n" * 100_000),
    "a path of a megabyte": once(lambda: b"GET /" + b"a" * (1 << 20)),
    "a body that never comes": once(f"{SIGN_IN}Content-Length: 100\r\n\r\n"),
    "a body by the byte": drop_by_drop(f"{SIGN_IN}Content-Length: 100000\r\n\r\n", b"a"),
    "a body that waits for leave": once(f"{SIGN_IN}Expect: 100-continue\r\nContent-Length: 100\r\n\r\n"),
    "chunks of a byte": drop_by_drop(f"{SIGN_IN}Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "half a chunk's length": once(f"{SIGN_IN}Transfer-Encoding: chunked\r\n\r\nfff"),
    "a chunk's extension without end": drop_by_drop(f"{SIGN_IN}Transfer-Encoding: chunked\r\n\r\n1;", b"a" * 100),
    "trailers without end": drop_by_drop(f"{SIGN_IN}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"X: a\r\n"),
    "a file by the byte": upload(FILE, b"a"),
    "a file that stops": upload(FILE + b"a" * 100_000, b"", 0),
    "10,000 parts": upload((b'--B\r\nContent-Disposition: form-data; name="x"\r\n\r\na\r\n') * 10_000, b"", 0),
    "10,000 headers of a part": upload(b"--B\r\n" + b"X: a\r\n" * 10_000, b"X: a\r\n"),
    "a header of a part without end": upload(b"--B\r\nX: ", b"a" * 100_000, 40),
    "a preamble without end": upload(b"", b"a" * 100_000, 40),
    "half of a second request": once("GET /healthz HTTP/1.1\r\nHost: engine\r\n\r\nGET /healthz HT"),
    "a download that it does not read": once(f"GET /apps/crm/large.bin HTTP/1.1\r\n{HEAD}\r\n"),
    "1,000 requests that it does not read": once(f"GET /apps/crm/large.bin HTTP/1.1\r\n{HEAD}\r\n" * 1000),
    "TLS": once(bytes.fromhex("16030100b5010000b10303") + bytes(100)),
    "HTTP/2": once(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
}


class World:
    """A served engine. port: where; signed: the header line of one who administers it."""

    def __init__(self, port: int, signed: str, incoming: Path) -> None:
        self.port = port
        self.signed = signed
        self.incoming = incoming

    async def dawdle(self, plan: Plan, most: float) -> float:
        """Return the seconds of working time until the server ends the connection, or a little more than `most`."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
        writer.transport.set_write_buffer_limits(1 << 16)
        began = working_time()
        sending = asyncio.create_task(_send(writer, plan(self.signed)))
        try:
            while _established(writer) and working_time() - began <= most:  # noqa: ASYNC110 - the kernel sets no event
                await asyncio.sleep(PACE_S)
        finally:
            sending.cancel()
            writer.transport.abort()
        return working_time() - began


def _established(writer: asyncio.StreamWriter) -> bool:
    """The server's answer is not read: the kernel shows if the connection has ended."""
    if writer.transport.is_closing():
        return False
    state: int = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state == 1


async def _send(writer: asyncio.StreamWriter, pieces: Iterator[bytes]) -> None:
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(PACE_S)
    except ConnectionError:
        return


@asynccontextmanager
async def engine_in(folder: Path) -> AsyncIterator[World]:
    source, incoming = folder / "source", folder / "incoming"
    (source / "content").mkdir(parents=True)
    incoming.mkdir()
    (source / "app.yaml").write_text(MANIFEST)
    (source / "content" / "large.bin").write_bytes(random.Random(1).randbytes(24 << 20))
    build(source, folder / "crm.tapp")
    engine = await Engine.open(folder / "data")
    await engine.publish(folder / "crm.tapp")
    await engine.set_admin_password(Password(clear="the admin's password"))
    served = Served(engine, folder / "data" / "key.jwk")
    token = await served.issue(*await engine.identity((await engine.identities())[0].id))
    bound = listening("127.0.0.1", 0)
    async with serving(engine_app(lambda request: served, Uploads(incoming)), bound):
        yield World(int(url_of(bound).rpartition(":")[2]), f"Authorization: Bearer {token}\r\n", incoming)
    await engine.close()


async def late(folder: Path, within: float) -> dict[str, float]:
    """Run all plans at once, and a client that behaves beside them.

    Return those that are not closed within so many seconds of working time, each with its seconds.
    """
    plans = [(name, plan) for _, (name, plan) in zip(range(CLIENTS), list(PLANS.items()) * 10, strict=False)]
    # It connects before the others begin, and keeps its connection: on a busy machine the loop that it shares with the server may
    # take longer than the patience between a connection and its head.
    keeping = httpx.Limits(keepalive_expiry=None)
    async with (
        engine_in(folder) as world,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{world.port}", timeout=NEVER_S, limits=keeping) as client,
    ):
        assert (await client.get("/api/v1/admin/apps", headers=_header(world))).status_code == 200
        waits: list[float] = []
        before = resident()
        working = asyncio.gather(*(world.dawdle(plan, within) for _, plan in plans), return_exceptions=True)
        grown = 0
        while not working.done():
            began = working_time()
            assert (await _asked(client, _header(world))).status_code == 200
            waits.append(working_time() - began)
            grown = max(grown, resident() - before)
            await asyncio.sleep(PACE_S)
        slowest: dict[str, float] = {}
        for (name, _), seconds in zip(plans, await working, strict=True):
            slowest[name] = max(slowest.get(name, 0.0), seconds if isinstance(seconds, float) else math.inf)
        assert sorted(waits)[int(len(waits) * 0.9)] < 1.0
        assert grown < MEMORY
        await eventually(lambda: not [*world.incoming.iterdir()], within=NEVER_S)
    return {name: seconds for name, seconds in slowest.items() if seconds > within}


async def _asked(client: httpx.AsyncClient, header: dict[str, str]) -> httpx.Response:
    """The answer, at the third try at the latest: on a busy machine the loop that client and server share may rest for longer
    than the patience of the test, between a connection and its head."""
    for _ in range(2):
        with suppress(httpx.ReadError):
            return await client.get("/api/v1/admin/apps", headers=header)
    return await client.get("/api/v1/admin/apps", headers=header)


def _header(world: World) -> dict[str, str]:
    name, _, value = world.signed.strip().partition(": ")
    return {name: value}


@pytest.mark.slow
async def test_two_hundred_dawdlers_are_closed_and_nobody_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a patience of two seconds."""
    assert len(PLANS) >= 20
    for module, name in ((slow_clients, "HEAD_S"), (slow_clients, "WRITE_S"), (bodies, "PATIENCE_SECONDS")):
        monkeypatch.setattr(module, name, 2.0)
    assert await late(tmp_path, within=7.0) == {}


@pytest.mark.slow
async def test_two_hundred_dawdlers_are_closed_within_fifteen_seconds_as_it_is_shipped(tmp_path: Path, tried: Tried) -> None:
    """The patience is time on the wall. What is left for the server's work is working time."""
    assert max(slow_clients.HEAD_S, slow_clients.WRITE_S, bodies.PATIENCE_SECONDS) <= 10.0
    assert await late(tmp_path, within=15.0) == {}
    tried(CLIENTS)


@pytest.mark.slow
async def test_a_client_that_is_only_slow_gets_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it takes longer than the patience. Its pauses are so short that a busy machine does not make it one that dawdles."""
    monkeypatch.setattr(slow_clients, "WRITE_S", 2.0)
    async with engine_in(tmp_path) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(f"GET /apps/crm/large.bin HTTP/1.1\r\n{HEAD}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(12):
            await reader.readexactly(2 << 20)
            await asyncio.sleep(0.25)
        writer.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "head", [f"GET / HTTP/1.1\r\n{HEAD}X: {'a' * 400_000}", f"GET / HTTP/1.1\r\n{HEAD}" + "X: a\r\n" * 70_000]
)
async def test_a_head_that_is_too_long_is_refused_before_it_ends(tmp_path: Path, head: str) -> None:
    async with engine_in(tmp_path) as world, asyncio.timeout(NEVER_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(head.encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 431")
        writer.transport.abort()
