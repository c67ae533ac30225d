"""One ASGI application for all engines of this process: /e/<tenant slug>/<environment slug>/..., opened on demand."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.engine.access import Served
from tenantry.engine.database import data_missing
from tenantry.engine.server import engine_app
from tenantry.model.verdicts import Halt
from tenantry.rest.problems import problem, status_of
from tenantry.rest.uploads import Uploads

CAPACITY = 100
_SERVED = "tenantry.served"


@dataclass(frozen=True)
class OpenEngine:
    """An engine that is open, and how it is closed."""

    served: Served
    close: Callable[[], Awaitable[None]]


Open = Callable[[EngineRecord, Path], Awaitable[OpenEngine]]
"""Opens the engine of that record in its folder."""


@dataclass
class _Lease:
    engine: OpenEngine
    users: int = 0
    retired: bool = False


class LocalHosting:
    """Serves the engines of `folders`; keeps at most `capacity` idle ones open, the last used."""

    def __init__(self, folders: EngineFolders, open_engine: Open, upload_limit: int, capacity: int = CAPACITY) -> None:
        self._folders = folders
        self._open_engine = open_engine
        self._capacity = capacity
        self._leases: OrderedDict[str, _Lease] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._app = engine_app(_served_of, Uploads(folders.incoming, upload_limit))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        outer = scope.get("root_path", "")
        parts = scope["path"].removeprefix(outer).split("/", 4)
        if len(parts) < 4 or parts[1] != "e" or self._folders.route(parts[2], parts[3]) is None:
            await problem(404, f"no such path: {scope['path']}")(scope, receive, send)
            return
        root = f"{outer}/e/{parts[2]}/{parts[3]}"
        async with AsyncExitStack() as stack:
            try:
                served = await stack.enter_async_context(self._leased(parts[2], parts[3]))
            except Halt as halt:  # it cannot be opened: its data is missing or damaged, or the disk fails
                await problem(status_of(halt, conditional=False), halt.verdict.message)(scope, receive, send)
                return
            if served is None:
                await problem(404, f"no such path: {scope['path']}")(scope, receive, send)
                return
            path = scope["path"] if len(parts) > 4 else f"{scope['path']}/"
            await self._app({**scope, "path": path, "root_path": root, _SERVED: served}, receive, send)

    @asynccontextmanager
    async def closed(self, id_: str) -> AsyncIterator[None]:
        """Closes the engine, and keeps it closed until the end of the block. Requests under way keep what they have."""
        async with self._lock(id_):
            lease = self._leases.pop(id_, None)
            if lease is not None:
                await self._retire(lease)
            yield

    async def aclose(self) -> None:
        """Closes all engines."""
        while self._leases:
            _, lease = self._leases.popitem()
            await self._retire(lease)

    @asynccontextmanager
    async def _leased(self, tenant_slug: str, slug: str) -> AsyncIterator[Served | None]:
        lease = await self._acquire(tenant_slug, slug)
        if lease is None:
            yield None
            return
        try:
            yield lease.engine.served
        finally:
            lease.users -= 1
            if lease.retired and not lease.users:
                await lease.engine.close()

    async def _acquire(self, tenant_slug: str, slug: str) -> _Lease | None:
        record = self._folders.route(tenant_slug, slug)
        if record is None:
            return None
        id_ = record.ref.id
        lease = self._leases.get(id_)
        if lease is None:
            async with self._lock(id_):
                record = self._folders.route(tenant_slug, slug)  # it may have gone while we waited
                if record is None or record.ref.id != id_:
                    return None
                lease = self._leases.get(id_) or await self._open(record)
                self._leases[id_] = lease
        self._leases.move_to_end(id_)
        lease.users += 1
        await self._evict()
        return lease

    async def _open(self, record: EngineRecord) -> _Lease:
        lost = await asyncio.to_thread(self._folders.lost, record.ref)
        if lost is not None:
            raise data_missing(lost[1])
        folder = await asyncio.to_thread(self._folders.make, record.ref.id)
        return _Lease(await self._open_engine(record, folder))

    async def _evict(self) -> None:
        surplus = len(self._leases) - self._capacity
        if surplus > 0:
            for id_ in [id_ for id_, lease in self._leases.items() if not lease.users][:surplus]:
                lease = self._leases.pop(id_)
                await self._retire(lease)

    async def _retire(self, lease: _Lease) -> None:
        lease.retired = True
        if not lease.users:
            await lease.engine.close()

    def _lock(self, id_: str) -> asyncio.Lock:
        lock = self._locks.get(id_)
        if lock is None:
            lock = self._locks[id_] = asyncio.Lock()
        return lock


def _served_of(request: Request) -> Served:
    served: Served = request.scope[_SERVED]
    return served
