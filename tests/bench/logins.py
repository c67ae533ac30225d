"""P11: sign-ins at once beside reads, against a bare loop of argon2 in two threads, and reads of a bare server beside it.

The servers are in this process; the clients are a process of their own: `python -m tests.bench.logins PORT TOKEN LOGINS RATE`
prints the seconds from the first sign-in to the last, and of each read. Without sign-ins it reads until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
from argon2 import PasswordHasher

from tenantry.cli.processes.serving import loop_factory
from tests.bench.row import Row, Scale, Took, interleaved, row, told
from tests.bench.served import Served, platform
from tests.scenario.rest_world import PASSWORD, declare_user

LOGINS = 100
READS_PER_S = 50
GATE = 0.8
SLOWEST_P99_S = 0.1
READ = "/api/v1/environments"


class Slowest(NamedTuple):
    """Of one repetition. ours: the p99 of its reads, in seconds; bar: the longest that it may be."""

    ours: float
    bar: float

    @property
    def ratio(self) -> float:
        return self.ours / self.bar


def measure(scale: Scale) -> Sequence[Row]:
    """As many users as sign-ins, from one address."""
    logins = scale.of(LOGINS)
    reads: list[float] = []
    slowest: list[Slowest] = []
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        stack = AsyncExitStack()
        try:
            served = runner.run(stack.enter_async_context(platform(scale.folder / "P11", 10)))
            runner.run(_users(served, logins))

            def subject() -> Took:
                took, taken = runner.run(_load(served, logins))
                reads.extend(taken)
                slowest.append(runner.run(_slowest(taken, logins)))
                return took

            times = interleaved(subject, lambda: _bare(logins), scale.repetitions)
        finally:
            runner.run(stack.aclose())
    work = f"{logins} sign-ins at once, and {READS_PER_S} GET/s"
    beside = {"GET_p50": told(median(reads)), "GET_p99": told(_p99(reads))}
    first = row("P11", work, "argon2 alone, in two threads", times, "higher", GATE, unit="sign-ins/s", amount=logins, **beside)
    slowest.sort(key=lambda each: each.ratio)
    middle = slowest[len(slowest) // 2]
    figures, spread = (told(middle.ours), told(middle.bar)), (slowest[0].ratio, slowest[-1].ratio)
    other = "100 ms, or a bare server's beside argon2"
    return (first, Row("P11", "the p99 of these GETs", other, middle.ratio, spread, "lower", 1.0, figures))


async def _slowest(taken: Sequence[float], logins: int) -> Slowest:
    """No server answers faster than the machine lets it, and others may keep both cores busy."""
    ours, bar = _p99(taken), SLOWEST_P99_S
    return Slowest(ours, bar if ours <= bar else max(bar, _p99(await _bare_reads(logins))))


def _p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


async def _users(served: Served, count: int) -> None:
    for number in range(count):
        await declare_user(served.platform, f"user{number}", "SUPERUSER")
    await served.platform.converged()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}", timeout=60) as client:
        made = await client.post("/api/v1/auth/token", data={"username": "user0", "password": PASSWORD})
        assert made.status_code == 200, made.text


def _bare(count: int) -> Took:
    """The hashing that must happen, and nothing else."""
    hasher = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1)
    stored = hasher.hash(PASSWORD)
    cpu, start = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda _: hasher.verify(stored, PASSWORD), range(count)))
    return Took(time.perf_counter() - start, time.process_time() - cpu)


async def _bare_reads(logins: int) -> list[float]:
    """Seconds of each read that a server without work of its own answers, beside the hashing."""
    reading = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                reading.set()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        client = await _client(server.sockets[0].getsockname()[1], "none", 0)
        await reading.wait()
        await asyncio.to_thread(_bare, logins)
        taken: list[float] = (await _said(client))["reads"]
        return taken


async def _load(served: Served, logins: int) -> tuple[Took, list[float]]:
    before = time.process_time()
    found = await _said(await _client(served.port, served.token, logins))
    return Took(found["seconds"], time.process_time() - before), found["reads"]


async def _client(port: int, token: str, logins: int) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tests.bench.logins", str(port), token, str(logins), str(READS_PER_S)]
    return await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)


async def _said(client: asyncio.subprocess.Process) -> dict[str, Any]:
    answer, _ = await client.communicate(b"")
    assert client.returncode == 0, "the client failed"
    found: dict[str, Any] = json.loads(answer)
    return found


async def _clients(port: int, token: str, logins: int, rate: int) -> dict[str, object]:
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(logins)]
    reader = await asyncio.open_connection("127.0.0.1", port)
    ended = asyncio.Event()
    reading = asyncio.create_task(_reads(reader, token, rate, ended))
    start = time.perf_counter()
    if not logins:
        await asyncio.to_thread(sys.stdin.read)
    await asyncio.gather(*(_sign_in(connection, number) for number, connection in enumerate(connections)))
    seconds = time.perf_counter() - start
    ended.set()
    return {"seconds": seconds, "reads": await reading}


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _sign_in(connection: Connection, number: int) -> None:
    body = urlencode({"username": f"user{number}", "password": PASSWORD})
    form = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    await _answered(connection, f"POST /api/v1/auth/token HTTP/1.1\r\nHost: bench\r\n{form}")


async def _reads(connection: Connection, token: str, rate: int, ended: asyncio.Event) -> list[float]:
    """Seconds of each, from the time at which it was due, whether the one before had ended or not."""
    taken: list[float] = []
    due = time.perf_counter()
    while not ended.is_set():
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await _answered(connection, f"GET {READ} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n")
        taken.append(time.perf_counter() - due)
        due += 1 / rate
    return taken


async def _answered(connection: Connection, request: str) -> None:
    """Raw, for a client library of its own weight would be what is measured."""
    reader, writer = connection
    writer.write(request.encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.partition(":")[2]) for line in head.splitlines() if line.lower().startswith("content-length:"))
    body = await reader.readexactly(length)
    assert " 200 " in head.splitlines()[0], (head, body)


if __name__ == "__main__":
    _, port, token, logins, rate = sys.argv
    print(json.dumps(asyncio.run(_clients(int(port), token, int(logins), int(rate)))))
