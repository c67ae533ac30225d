"""A proxy before an engine that does to one chosen request what networks and engines do, on real sockets."""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import Enum

import h11
import httpx

SLOW_S = 0.2
_READ = 1 << 16
_OTHERWISE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=/)p-\d+|(?<=/e/acme/)dev(elop)?(?=/)")
"""The parts of a path that another run may spell otherwise: ids, and the slug of an environment that is given another."""
_NONSENSE = (b"<html>It works!</html>", b"null", b"[]", b'{"data": 5}', b'{"data": [5]}', b"\xff\xfe{}", b"", b"{")


class EngineFault(Enum):
    """The fate of a request. LATE, LOST and GARBLED: the engine has done it."""

    TIME_OUT = "no answer, and nothing done"
    LATE = "done, and no answer"
    RESET = "the connection is reset, nothing done"
    LOST = "done, and the connection is reset"
    FAILING = "answered 500, nothing done"
    SLOW = "done, and answered slowly"
    GARBAGE = "an answer that is none, nothing done"
    GARBLED = "done, and an answer that is none"


_DONE = (EngineFault.LATE, EngineFault.LOST, EngineFault.SLOW, EngineFault.GARBLED)


@dataclass(frozen=True)
class Strike:
    """The requests that are struck. key: `METHOD path`, what may change as `*`; nth: from 1; times: how many, in turn."""

    key: str
    nth: int
    fault: EngineFault
    times: int = 1

    def hits(self, key: str, seen: int) -> bool:
        return key == self.key and self.nth <= seen < self.nth + self.times


@dataclass
class EngineProxy:
    """Passes requests on to `target`. asked: their keys, in order. on_strike: called at each fault."""

    strike: Strike | None = None
    target: str = ""
    asked: list[str] = field(default_factory=list)
    struck: int = 0
    on_strike: Callable[[], None] = lambda: None
    _seen: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its URL, while it serves."""
        server = await asyncio.start_server(self._serve, "127.0.0.1")
        async with httpx.AsyncClient(timeout=60, trust_env=False) as self._client:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            server.close()

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Strikes nothing, and counts nothing, for those who only look on."""
        kept = self.strike, list(self.asked), Counter(self._seen)
        self.strike = None
        try:
            yield
        finally:
            self.strike, self.asked, self._seen = kept

    @property
    def changes(self) -> list[str]:
        """Of the requests, those that are to change something."""
        return [each for each in self.asked if not each.startswith("GET ")]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request, body = await _request(reader)
            await self._treat(request, body, reader, writer)
        except (ConnectionError, h11.RemoteProtocolError, httpx.TransportError):
            pass  # the client went away, or the engine ends
        finally:
            writer.close()

    async def _treat(self, request: h11.Request, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key = f"{request.method.decode()} {_OTHERWISE.sub('*', request.target.decode())}"
        self.asked.append(key)
        self._seen[key] += 1
        hit = self.strike is not None and self.strike.hits(key, self._seen[key])
        fault = self.strike.fault if hit and self.strike else None
        if fault is not None:
            self.struck += 1
            self.on_strike()
        answer = await self._passed_on(request, body) if fault is None or fault in _DONE else None
        match fault:
            case EngineFault.TIME_OUT | EngineFault.LATE:
                await reader.read()  # until the client has had enough
            case EngineFault.RESET | EngineFault.LOST:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            case EngineFault.FAILING:
                await _send(writer, 500, b'{"error": "out of order"}')
            case EngineFault.GARBAGE | EngineFault.GARBLED:
                await _send(writer, 200, random.Random(str(self.strike)).choice(_NONSENSE))
            case _:
                assert answer is not None
                await _send(writer, answer.status_code, answer.content, SLOW_S if fault is EngineFault.SLOW else 0)

    async def _passed_on(self, request: h11.Request, body: bytes) -> httpx.Response:
        headers = [(name, value) for name, value in request.headers if name not in (b"host", b"transfer-encoding")]
        url = f"{self.target}{request.target.decode()}"
        return await self._client.request(request.method.decode(), url, headers=headers, content=body)


async def _request(reader: asyncio.StreamReader) -> tuple[h11.Request, bytes]:
    connection, body = h11.Connection(h11.SERVER), bytearray()
    request: h11.Request | None = None
    while True:
        match connection.next_event():
            case h11.Request() as request:
                pass
            case h11.Data() as data:
                body += data.data
            case h11.EndOfMessage():
                assert request is not None
                return request, bytes(body)
            case h11.ConnectionClosed():
                raise ConnectionError
            case _:
                connection.receive_data(await reader.read(_READ))


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes, slowly_s: float = 0) -> None:
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    for piece in (head.encode(), body[: len(body) // 2], body[len(body) // 2 :]):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(slowly_s)
