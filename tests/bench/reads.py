"""P7 and P9: reads through the facade, authenticated and within a tenant, against a bare application that sends the same bytes.

Both are served by uvicorn in this process; the client is a process of its own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.cli.serving import loop_factory
from tests.bench.row import Row, Scale, Took, interleaved, row
from tests.bench.served import Served, platform, port_of

ENVIRONMENTS = 1000
CLIENTS = 32
GATE = 0.35


def p07(scale: Scale) -> Sequence[Row]:
    """The list of all environments."""
    count = scale.of(ENVIRONMENTS)
    return (_compared(scale, "P7", "/api/v1/environments", f"GET /environments, {count:,} items", scale.of(400)),)


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
            served = runner.run(stack.enter_async_context(platform(scale.folder / id_, count)))  # type: ignore[arg-type]
            path = path.replace("{id}", served.environments[count // 2])
            answer = runner.run(_answer(served, path))
            bare = runner.run(stack.enter_async_context(port_of(_bare(answer))))  # type: ignore[arg-type]

            def load(port: int) -> Took:
                return runner.run(_load(port, path, served.token, requests))

            times = interleaved(lambda: load(served.port), lambda: load(bare), scale.repetitions)
        finally:
            runner.run(stack.aclose())  # type: ignore[arg-type]
    size = f"{len(answer.content) / 1024:,.1f} KiB"
    reference = "a bare ASGI application that sends the same bytes"
    return row(id_, work, reference, times, "higher", GATE, unit="requests/s", amount=requests, answer=size, clients=str(CLIENTS))


async def _answer(served: Served, path: str) -> httpx.Response:
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


async def _load(port: int, path: str, token: str, requests: int) -> Took:
    """wall: as the client saw it; cpu: of the server."""
    command = [sys.executable, "-m", "tests.bench.load", str(port), path, token, str(requests), str(CLIENTS)]
    before = time.process_time()
    client = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await client.communicate()
    assert client.returncode == 0, "the client failed"
    return Took(float(told), time.process_time() - before)
