"""P24: pages of the console against the JSON list of as many environments, both through the facade of one platform."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta

import httpx

from tenantry.cli.clients.issuing import issuer
from tenantry.cli.processes.serving import loop_factory
from tests.bench.reads import CLIENTS, answer_of, load
from tests.bench.row import Row, Scale, Took, interleaved, row
from tests.bench.served import Served, platform
from tests.scenario.rest_world import declare_user

ENVIRONMENTS = 10_000
REQUESTS = 400
PAGE = 50
GATE = 3.0
PAGES = {"/console/": ("page of the fleet", GATE), "/console/environments": ("page of the list", None)}
"""Their words and gates. Both show all environments to a SUPERUSER."""


def measure(scale: Scale) -> Sequence[Row]:
    """A SUPERUSER's fleet, and the first page of the list."""
    count = scale.of(ENVIRONMENTS)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        stack = AsyncExitStack()
        try:
            served = runner.run(stack.enter_async_context(platform(scale.folder / "P24", count)))
            token = runner.run(_superuser(served))
            return [_compared(scale, runner, served, token, page, count) for page in PAGES]
        finally:
            runner.run(stack.aclose())


async def _superuser(served: Served) -> str:
    await declare_user(served.platform, "root", "SUPERUSER")
    await served.platform.converged()
    return await issuer(served.platform)("root", timedelta(hours=1))


def _compared(scale: Scale, runner: asyncio.Runner, served: Served, token: str, page: str, count: int) -> Row:
    words, gate = PAGES[page]
    requests, path = scale.of(REQUESTS), f"/api/v1/environments?limit={PAGE}"
    shown = runner.run(_shown(served.port, page, token))
    listed = runner.run(answer_of(served, path))

    def took(path: str, token: str) -> Took:
        return runner.run(load(served.port, path, token, requests))

    times = interleaved(lambda: took(page, token), lambda: took(path, served.token), scale.repetitions)
    sizes = f"{len(shown) / 1024:,.1f} KiB of {len(listed.content) / 1024:,.1f} KiB"
    each = f"{times.wall[0] / requests * 1000:.1f} ms"
    return row(
        "P24",
        f"{words}, {count:,} environments",
        f"JSON list of {PAGE}",
        times,
        "lower",
        gate,
        page=each,
        answer=sizes,
        clients=str(CLIENTS),
    )


async def _shown(port: int, page: str, token: str) -> bytes:
    """The page, which begins to follow the cache with its first visit."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        headers = {"Host": f"localhost:{port}", "Cookie": f"tenantry-console-{port}={token}"}
        return (await client.get(page, headers=headers)).raise_for_status().content
