"""Clients of the fairness benchmark, each a process of its own: one tenant's users, and another tenant's attacks.

`python -m tests.bench.fair_clients users` reads {port, requests} and then numbers of seconds, a line each, and answers each with
the seconds that every request took, by name. `... attack` reads {port} and the fields of an Attack, answers each further line
with the number of its requests so far, and goes on until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import time
from collections.abc import Mapping
from itertools import cycle
from typing import Any

from tenantry.cli.processes.prompt_thread import shorten_slices

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ATTACKER = "127.0.0.2"
"""The address that attacks come from: limits of an address are not what is measured."""
LISTENERS_OF_ADDRESS = 200
"""Listeners of one address: a server takes 256 connections of each."""
OPENING = 50
"""Listeners that connect at the same time."""
SLOW_PIECE, SLOW_PAUSE_S = 4096, 0.25
"""Bytes that a slow reader takes at once, and its pause after them: somewhat faster than the slowest that are served."""
ATTACKER_NICE = 10
"""The attack's client gives way to the platform and its users: on a machine of its own it would take none of their processors."""


def http(request: Mapping[str, Any]) -> bytes:
    """The bytes of {method, path, headers} and a body: `before`, `body` so many `times`, `after`; or bytes as `latin`."""
    middle = request.get("body", "") * request.get("times", 1)
    body = (request.get("before", "") + middle + request.get("after", "")).encode() or request.get("latin", "").encode("latin-1")
    headers = {"Host": "bench", "Content-Length": str(len(body)), **request.get("headers", {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"{request['method']} {request['path']} HTTP/1.1\r\n{lines}\r\n"
    return head.encode() + bytes(body)


async def answered(connection: Connection, request: bytes) -> int:
    """Send a request and read its answer. Return the status."""
    head = await begun(connection, request)
    await taken(connection, head)
    return status_of(head)


async def begun(connection: Connection, request: bytes) -> str:
    """Send a request. Return the head of its answer, in small letters."""
    reader, writer = connection
    writer.write(request)
    return (await reader.readuntil(b"\r\n\r\n")).decode().lower()


def status_of(head: str) -> int:
    """Return the status of an answer."""
    return int(head.split(" ", 2)[1])


async def taken(connection: Connection, head: str) -> None:
    """Read the body of an answer."""
    reader, _ = connection
    if "transfer-encoding: chunked" in head:
        while size := int((await reader.readline()).strip() or b"0", 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        length = [line.partition(":")[2] for line in head.splitlines() if line.startswith("content-length:")]
        await reader.readexactly(int(length[0]) if length else 0)


async def taken_slowly(connection: Connection, head: str) -> None:
    """Read the body of an answer that the connection ends with, as a client on a slow line. Few bytes wait on the way."""
    while True:
        piece = await connection[0].read(SLOW_PIECE)
        if not piece:
            return
        await asyncio.sleep(SLOW_PAUSE_S)


async def slow_connection(port: int) -> Connection:
    """Open a connection that takes few bytes before they are read."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_PIECE)
    narrow.setblocking(False)
    narrow.bind((ATTACKER, 0))
    await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=narrow, limit=SLOW_PIECE)


async def users(told: Mapping[str, Any]) -> None:
    """Sends each request at its own rate, on a connection of its own, for as many seconds as each line says.

    It interrupts what computes, as soon as its answer is there: users have machines of their own.
    """
    shorten_slices()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        seconds = float(line)
        each = {name: _paced(told["port"], request, seconds) for name, request in told["requests"].items()}
        taken = dict(zip(each, await asyncio.gather(*each.values()), strict=True))
        print(json.dumps(taken), flush=True)


async def _paced(port: int, request: Mapping[str, Any], seconds: float) -> list[float]:
    """Seconds of each request from when it was due; one that is late does not make the next late."""
    connection = await asyncio.open_connection("127.0.0.1", port)
    raw, rate = http(request), float(request["rate"])
    taken: list[float] = []
    started = due = time.perf_counter()
    while due - started < seconds or not taken:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        status = await answered(connection, raw)
        assert status in (200, 202), (request["path"], status)
        taken.append(time.perf_counter() - sent)
        due = max(due + 1 / rate, time.perf_counter() - 1 / rate)
    connection[1].close()
    return taken


async def attack(told: Mapping[str, Any]) -> None:
    """Keeps every connection busy, or only open. Prints the status of the first answer, and counts when asked."""
    os.nice(ATTACKER_NICE)
    count = 0
    port, requests = told["port"], cycle([http(each) for each in told["requests"]])
    first = asyncio.get_running_loop().create_future()

    async def opened() -> Connection:
        if told["slow"]:
            return await slow_connection(port)
        return await asyncio.open_connection("127.0.0.1", port, local_addr=(ATTACKER, 0))

    async def busy() -> None:
        nonlocal count
        while True:
            try:
                connection = await opened()
                while True:
                    head = await begun(connection, next(requests))
                    if not first.done():
                        first.set_result(status_of(head))
                    await (taken_slowly if told["slow"] else taken)(connection, head)
                    count += 1
                    if told["idle"]:
                        await asyncio.Event().wait()
            except (OSError, asyncio.IncompleteReadError):
                await _turned_away()

    async with asyncio.TaskGroup() as group:
        await _followed(group, port, told["followed"], told["listeners"])
        for _ in range(told["connections"]):
            group.create_task(busy())
        print(await first, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(count, flush=True)


async def _followed(group: asyncio.TaskGroup, port: int, request: Mapping[str, Any], listeners: int) -> None:
    """Open so many connections with an answer without end, whose parts are read and dropped."""
    places = asyncio.Semaphore(OPENING)

    async def opened(number: int) -> Connection:
        async with places:
            address = f"127.0.0.{3 + number // LISTENERS_OF_ADDRESS}"
            connection = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            status = status_of(await begun(connection, http(request)))
            if status != 200:
                raise ConnectionError(f"a listener is refused with {status}")
            return connection

    async def following(number: int, connection: Connection) -> None:
        while True:
            try:
                while await connection[0].read(1 << 16):
                    pass
                await _turned_away()
                connection = await opened(number)
            except (OSError, asyncio.IncompleteReadError):
                await _turned_away()

    for number, connection in enumerate(await asyncio.gather(*map(opened, range(listeners)))):
        group.create_task(following(number, connection))


async def _turned_away() -> None:
    """Wait a while: to come back at once, or all together, is another attack."""
    await asyncio.sleep(random.uniform(0.5, 1.5))


if __name__ == "__main__":
    role = {"users": users, "attack": attack}[sys.argv[1]]
    asyncio.run(role(json.loads(sys.stdin.readline())))
