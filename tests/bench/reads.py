"""P7 to P9: reads through the facade, authenticated and within a tenant, against a bare application that sends the same bytes.

Both are served by uvicorn in this process; the client is a process of its own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.cli.processes.serving import loop_factory
from tests.bench.row import Row, Scale, Took, interleaved, row, told
from tests.bench.served import Served, platform, port_of

ENVIRONMENTS = 1000
CLIENTS = 32
GATE = 0.35
MANY, FEW, PAGE = 10_000, 100, 50
PAGE_GATE = 2.0


def p07(scale: Scale) -> Sequence[Row]:
    """The list of all environments."""
    count = scale.of(ENVIRONMENTS)
    return (_compared(scale, "P7", "/api/v1/environments", f"GET /environments, {count:,} items", scale.of(400)),)


def p08(scale: Scale) -> Sequence[Row]:
    """Pages out of many environments, the first and one in the middle, against pages out of few. Two platforms, by turns."""
    many = scale.of(MANY)
    path, requests = f"/api/v1/environments?limit={PAGE}", scale.of(4000)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        stack = AsyncExitStack()

        def entered(name: str, count: int) -> Served:
            return runner.run(stack.enter_async_context(platform(scale.folder / name, count)))

        def paged(served: Served, path: str) -> Took:
            return runner.run(load(served.port, path, served.token, requests))

        try:
            full, small = entered("P8-many", many), entered("P8-few", FEW)
            middle = runner.run(_middle(full, many))
            found = [
                (which, interleaved(partial(paged, full, asked), partial(paged, small, path), scale.repetitions))
                for which, asked in (("first", path), ("middle", middle))
            ]
        finally:
            runner.run(stack.aclose())
    return [
        row("P8", f"{which} page of {PAGE} out of {many:,}", f"first page of {PAGE} out of {FEW}", times, "lower", PAGE_GATE,
            page=told(times.wall[0] / requests), clients=str(CLIENTS))
        for which, times in found
    ]  # fmt: skip


async def _middle(served: Served, count: int) -> str:
    """Return the path of the page that begins in the middle."""
    path, left = "/api/v1/environments", count // 2
    while left:
        step = min(left, 1000)
        query = path.partition("?")[2]
        start = next((part for part in query.split("&") if part.startswith("continue=")), "")
        answer = await answer_of(served, f"/api/v1/environments?limit={step}" + (f"&{start}" if start else ""))
        path, left = answer.links["next"]["url"], left - step
    following = next(part for part in path.partition("?")[2].split("&") if part.startswith("continue="))
    return f"/api/v1/environments?limit={PAGE}&{following}"


def p09(scale: Scale) -> Sequence[Row]:
    """One environment."""
    return (
        _compared(scale, "P9", "/api/v1/environments/{id}", "GET one environment, JWT and tenancy checked", scale.of(20_000)),
    )


def _compared(scale: Scale, id_: str, path: str, work: str, requests: int) -> Row:
    count = scale.of(ENVIRONMENTS)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        stack = AsyncExitStack()
        try:
            served = runner.run(stack.enter_async_context(platform(scale.folder / id_, count)))
            path = path.replace("{id}", served.environments[count // 2])
            answer = runner.run(answer_of(served, path))
            bare = runner.run(stack.enter_async_context(port_of(_bare(answer))))

            def loaded(port: int) -> Took:
                return runner.run(load(port, path, served.token, requests))

            times = interleaved(lambda: loaded(served.port), lambda: loaded(bare), scale.repetitions)
        finally:
            runner.run(stack.aclose())
    size = f"{len(answer.content) / 1024:,.1f} KiB"
    reference = "a bare ASGI application that sends the same bytes"
    return row(id_, work, reference, times, "higher", GATE, unit="requests/s", amount=requests, answer=size, clients=str(CLIENTS))


async def answer_of(served: Served, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}") as client:
        answer = await client.get(path, headers={"Authorization": f"Bearer {served.token}"})
    return answer.raise_for_status()


def _bare(answer: httpx.Response) -> ASGIApp:
    headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() != b"date"]
    body = answer.content

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    return app


async def load(port: int, path: str, token: str, requests: int) -> Took:
    """wall: as the client saw it; cpu: of the server."""
    command = [sys.executable, "-m", "tests.bench.load", str(port), path, token, str(requests), str(CLIENTS)]
    before = time.process_time()
    client = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await client.communicate()
    assert client.returncode == 0, "the client failed"
    return Took(float(told), time.process_time() - before)
