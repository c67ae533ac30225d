"""GET /metrics of `up` and of engines, at an address of its own: no user reaches what shows the load of others."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.processes.serving import serving
from tenantry.engine.sql.files import BACKED_UP, FILE
from tenantry.model.measures import EngineHoldings, RequestMeasures
from tenantry.settings import parse_address

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PLAIN_TEXT = "text/plain; version=0.0.4; charset=utf-8"
COUNTED_EVERY_S = 60.0
Count = Callable[[], Awaitable[EngineHoldings]]


class HeldByEngines:
    """The bytes and backups of engines, counted beside the scrapes at most once a minute: a scrape waits for no disk."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._task: asyncio.Task[None] | None = None
        self._due = 0.0
        self.counted = EngineHoldings()

    def look(self) -> None:
        """Begin to count if it is time."""
        if time.monotonic() >= self._due and (self._task is None or self._task.done()):
            self._due = time.monotonic() + COUNTED_EVERY_S
            self._task = asyncio.create_task(self._look(), name="sizes of engines")

    async def _look(self) -> None:
        self.counted = await self._count()

    async def aclose(self) -> None:
        """End a count that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def held_below(folder: Path) -> EngineHoldings:
    """Return the bytes of SQLite databases and of other files below a folder of engines, and the times of their backups.

    Blocks. What goes meanwhile counts 0.
    """
    sizes, backed_up = {"database": 0, "files": 0}, None
    for name, about in _files(folder):
        sizes["database" if name.startswith(FILE) else "files"] += about.st_size
        if name == BACKED_UP:
            backed_up = min(backed_up or about.st_mtime, about.st_mtime)
    return EngineHoldings(sizes, backed_up)


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            else:
                yield entry.name, entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue


@asynccontextmanager
async def engine_metrics_served(
    address: str, requests: RequestMeasures, count: Count, numbers: Callable[[], CollectorRegistry] | None = None
) -> AsyncIterator[str]:
    """Serve until the end of the block, and yield `HOST:PORT`; `""` where no address is given.

    numbers: the other ones of this process. Raises Failure if the address is taken.
    """
    if not address:
        yield ""
        return
    held = HeldByEngines(count)
    writing: list[Callable[[], bytes]] = []

    async def metrics(request: Request) -> Response:
        held.look()
        if not writing:
            # Prometheus' client is imported when somebody asks for numbers, in a thread because it takes a while.
            writing.append(await asyncio.to_thread(_exposition, requests, lambda: held.counted, numbers))
        return Response(writing[0](), media_type=PLAIN_TEXT)

    bound = listening(*parse_address(address), "TENANTRY_METRICS=")
    try:
        async with serving(Starlette(routes=[Route("/metrics", metrics)]), bound):
            yield url_of(bound).removeprefix("http://")
    finally:
        await held.aclose()


def _exposition(
    requests: RequestMeasures, held: Callable[[], EngineHoldings], numbers: Callable[[], CollectorRegistry] | None
) -> Callable[[], bytes]:
    from tenantry.adapters.metrics.engine import exposition_of

    return exposition_of(requests, held, numbers() if numbers is not None else None)
