"""The client of P32: many listeners of one table, and writes at a steady rate. A process of its own.

`python -m tests.bench.rows.listeners` reads {base, authorization, table, listeners, rate, seconds} from standard input. It prints
{p50, p99, longest, delivered, expected}: seconds from before a row was sent until a listener had it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit

from tenantry.cli.processes.serving import loop_factory

OPENING = 50
"""Listeners that connect at the same time."""
WRITERS = 4
"""Connections that write by turns."""
OF_ADDRESS = 100
"""Listeners of one address: a server takes 256 connections of each."""
LATE_S = 10.0
"""Seconds after the last write in which deliveries count."""
_AMOUNT = re.compile(rb'"amount":(\d+)\}')


class Deliveries:
    """The deliveries of all listeners. sent: when each row was sent; taken: the seconds of each delivery."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.sent: dict[int, float] = {}
        self.taken: list[float] = []
        self.whole = asyncio.Event()

    def add(self, numbers: list[bytes], now: float) -> None:
        """Count rows that a listener has got."""
        self.taken.extend([now - self.sent[int(number)] for number in numbers])
        if len(self.taken) >= self.expected:
            self.whole.set()


class Listening(asyncio.Protocol):
    """One listener."""

    def __init__(self, head: bytes, deliveries: Deliveries) -> None:
        self._head, self._deliveries = head, deliveries
        self._rest = b""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.WriteTransport, transport).write(self._head)  # uvloop's own is no subclass of asyncio's

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._rest += data
        if not self.ready.done() and b"event: ready" in self._rest:
            self.ready.set_result(None)
        elif not self.ready.done() and not b"HTTP/1.1 200".startswith(self._rest[:12]):
            self.ready.set_exception(ConnectionError(f"refused: {self._rest[:500]!r}"))
        whole, _, self._rest = self._rest.rpartition(b"\n\n")
        self._deliveries.add(_AMOUNT.findall(whole), now)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(f"refused: {self._rest[:500]!r}"))


async def measured(asked: dict[str, Any]) -> dict[str, float]:
    """Open all listeners, write at the rate, and wait for the deliveries."""
    url = urlsplit(asked["base"])
    host, port = str(url.hostname), int(url.port or 80)
    about = f"Host: {url.netloc}\r\nAuthorization: {asked['authorization']}\r\n"
    head = f"GET {url.path}/{asked['table']}/changes HTTP/1.1\r\n{about}Accept: text/event-stream\r\n\r\n".encode()
    count = int(asked["rate"] * asked["seconds"])
    deliveries = Deliveries(count * asked["listeners"])
    loop, places = asyncio.get_running_loop(), asyncio.Semaphore(OPENING)

    async def opened(number: int) -> asyncio.BaseTransport:
        async with places:
            own = (f"127.0.0.{2 + number // OF_ADDRESS}", 0)
            transport, protocol = await loop.create_connection(lambda: Listening(head, deliveries), host, port, local_addr=own)
            await asyncio.wait_for(protocol.ready, 60)
            return transport

    transports = await asyncio.gather(*[opened(number) for number in range(asked["listeners"])])
    start = loop.time()

    async def written(first: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for number in range(first, count, WRITERS):
            await asyncio.sleep(max(0.0, start + number / asked["rate"] - loop.time()))
            body = json.dumps({"title": "a change", "amount": number}).encode()
            given = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nPrefer: return=minimal\r\n"
            deliveries.sent[number] = time.perf_counter()
            writer.write(f"POST {url.path}/{asked['table']} HTTP/1.1\r\n{about}{given}\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            if b" 201 " not in answer.partition(b"\r\n")[0]:
                raise RuntimeError(f"a write was refused: {answer!r}")
            length = re.search(rb"content-length: (\d+)", answer.lower())
            await reader.readexactly(int(length[1]) if length else 0)
        writer.close()

    await asyncio.gather(*map(written, range(WRITERS)))
    wrote = loop.time() - start
    with suppress(TimeoutError):
        await asyncio.wait_for(deliveries.whole.wait(), LATE_S)
    for transport in transports:
        transport.close()
    taken = sorted(deliveries.taken)
    return {
        "p50": taken[len(taken) // 2],
        "p99": taken[int(len(taken) * 0.99)],
        "longest": taken[-1],
        "delivered": len(taken),
        "expected": deliveries.expected,
        "rate": count / wrote,
    }


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(runner.run(measured(json.load(sys.stdin)))))
