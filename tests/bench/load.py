"""A client of its own process: COUNT requests over CLIENTS connections, the next as soon as the last is answered.

python -m tests.bench.load PORT PATH TOKEN COUNT CLIENTS prints the seconds from the first to the last. Pages of the console get
the token as a browser sends it: in the cookie of a session, at localhost.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Client(asyncio.Protocol):
    """One connection. Takes its requests out of `left`."""

    def __init__(self, request: bytes, left: list[None], ended: asyncio.Future[None]) -> None:
        self._request = request
        self._left = left
        self._ended = ended
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            head, _, data = data.partition(b"\r\n\r\n")
            found = _LENGTH.search(head)
            if b" 200 " not in head[:16] or found is None:
                self._ended.set_exception(RuntimeError(head.decode(errors="replace")))
                return
            self._missing = int(found[1])
        self._missing -= len(data)
        if not self._missing:
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_exception(exc or ConnectionError("the server hung up"))

    def _next(self) -> None:
        if self._left:
            self._left.pop()
            self._transport.write(self._request)  # type: ignore[attr-defined]
        elif not self._ended.done():
            self._ended.set_result(None)


async def run(port: int, path: str, token: str, count: int, clients: int) -> float:
    request = _request(port, path, token).encode()
    loop = asyncio.get_running_loop()
    left: list[None] = [None] * count
    ended: list[asyncio.Future[None]] = [loop.create_future() for _ in range(clients)]
    start = time.perf_counter()
    for each in ended:
        await loop.create_connection(lambda each=each: Client(request, left, each), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*ended)
    return time.perf_counter() - start


def _request(port: int, path: str, token: str) -> str:
    if path.startswith("/console"):
        sent = f"Host: localhost:{port}\r\nCookie: tenantry-console-{port}={token}\r\nAccept-Encoding: gzip"
    else:
        sent = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}"
    return f"GET {path} HTTP/1.1\r\n{sent}\r\n\r\n"


if __name__ == "__main__":
    _, port, path, token, count, clients = sys.argv
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(run(int(port), path, token, int(count), int(clients))))
