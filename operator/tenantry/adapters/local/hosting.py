"""One ASGI application for all engines of this process: /e/<tenant slug>/<environment slug>/..., opened on demand."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.engine.sql.files import DATABASE_DAMAGED, data_missing
from tenantry.model.facts import EngineRef
from tenantry.model.measures import RequestMeasures
from tenantry.model.verdicts import Halt, Waiting
from tenantry.rest.answers import LateAnswer, ReadyAnswer
from tenantry.rest.fairness.gate import Gate
from tenantry.rest.problems import problem, reason_to_explain, status_of, unexpected
from tenantry.rest.uploads import Uploads
from tenantry.tracing.work import SUBJECT

if TYPE_CHECKING:
    from tenantry.engine.access import Served
    from tenantry.engine.server import EngineServer

CAPACITY = 100
_SERVED = "tenantry.served"
LOCATED = "tenantry.located"
"""In the scope of a request that was found to be of an engine by other means than its path: the engine's EngineRoute."""
_HAD_TURN, _ASKED = "tenantry.turn", "tenantry.asked"
"""In the scope of a request that has had its turn, and of one that `answer_now` was asked about."""


@dataclass(frozen=True)
class OpenEngine:
    """An engine that is open, and how it is closed.

    end_streams: ends the answers that last, so that their users leave it. is_damaged: whether a request found its file damaged.
    """

    served: Served
    close: Callable[[], Awaitable[None]]
    end_streams: Callable[[], None]
    is_damaged: Callable[[], bool] = lambda: False


Open = Callable[[EngineRecord, Path], Awaitable[OpenEngine]]
"""Opens the engine of that record in its folder."""


class EnvironmentSubject:
    """The environment of an engine, as log lines name it."""

    def __init__(self, ref: EngineRef) -> None:
        self._ref = ref

    def fields(self, about: str = "") -> dict[str, str]:
        """Return the fields of a line about it."""
        return self._ref.about


@dataclass
class _Lease:
    engine: OpenEngine
    users: int = 0
    retired: bool = False


class LocalHosting:
    """Serves the engines of `folders`; keeps at most `capacity` idle ones open, the last used."""

    def __init__(
        self, folders: EngineFolders, open_engine: Open, upload_limit: int, capacity: int = CAPACITY, gate: Gate | None = None
    ) -> None:
        self._folders = folders
        self._open_engine = open_engine
        self._capacity = capacity
        self.gate = gate or Gate()
        self.measures = RequestMeasures()
        """The requests to all engines."""
        self._leases: OrderedDict[str, _Lease] = OrderedDict()
        self._suspects: set[str] = set()
        """The engines that could not be opened because their file is damaged."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._uploads = Uploads(folders.incoming, upload_limit)
        self._app: EngineServer | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_slug, slug, root, path = _located(scope)
        record = self._folders.route(tenant_slug, slug) if slug else None
        if record is None:
            await problem(404, f"no such path: {scope['path']}")(scope, receive, send)
            return
        if _HAD_TURN not in scope:
            await self.gate.turn(tenant_slug)
        with bound_contextvars(**{SUBJECT: EnvironmentSubject(record.ref)}):
            found = await self._acquired(scope, tenant_slug, slug)
            if isinstance(found, Response):
                await found(scope, receive, send)
                return
            try:
                app = self._app or await self._engines()
                await app({**scope, "path": path, "root_path": root, _SERVED: found.engine.served}, receive, send)
            finally:
                await self._leave(found)

    async def _acquired(self, scope: Scope, tenant_slug: str, slug: str) -> _Lease | Response:
        """Return the open engine, or what to answer because it cannot be opened: its data is missing or damaged, or the disk
        fails."""
        try:
            lease = await self._acquire(tenant_slug, slug)
        except Halt as halt:
            status = status_of(halt, conditional=False)
            refusal = problem(status, halt.told, reason=reason_to_explain(halt))
        except Exception as bug:  # noqa: BLE001 - it is logged with the environment
            refusal = unexpected(scope, bug)
        else:
            return lease or problem(404, f"no such path: {scope['path']}")
        self.measures.answered("other", refusal.status_code, 0.0)
        return refusal

    def answer_now(self, scope: Scope) -> ReadyAnswer | LateAnswer | None:
        """Return the answer to a frequent read of an open engine, as AnswerNow: it waits neither for a turn nor for a thread,
        and at most for a server's database.

        It is None for a request that was asked about before.
        """
        app = self._app
        if app is None or _ASKED in scope:
            return None
        scope[_ASKED] = True
        parts = scope["path"].removeprefix(scope.get("root_path", "")).split("/", 4)
        record = self._folders.route(parts[2], parts[3]) if len(parts) == 5 and parts[1] == "e" else None
        id_ = "" if record is None else record.ref.id
        lease = self._leases.get(id_)
        if record is None or lease is None:
            return None
        path, served = f"/{parts[4]}", lease.engine.served
        if not app.fast.may_answer(scope, path) or not self.gate.begins_now(parts[2]):
            return None
        scope[_HAD_TURN] = True
        self._leases.move_to_end(id_)
        answer = app.fast.answer(scope, path, served)
        return answer if answer is None or isinstance(answer, ReadyAnswer) else partial(self._held, lease, record, answer)

    async def _held(self, lease: _Lease, record: EngineRecord, late: LateAnswer) -> ReadyAnswer | None:
        """Keep the engine open until the answer is there."""
        if lease.retired:
            return None
        lease.users += 1
        try:
            with bound_contextvars(**{SUBJECT: EnvironmentSubject(record.ref)}):
                return await late()
        finally:
            await self._leave(lease)

    async def _engines(self) -> EngineServer:
        """The server of engines. It is imported in a thread when the first of them is used, because that takes 0.3 s."""
        server = await asyncio.to_thread(import_module, "tenantry.engine.server")
        if self._app is None:
            self._app = server.engine_app(_served_of, self._uploads, self.measures)
        return self._app

    @asynccontextmanager
    async def closed(self, id_: str) -> AsyncIterator[None]:
        """Closes the engine, and keeps it closed until the end of the block. Requests under way keep what they have."""
        async with self._lock(id_):
            lease = self._leases.pop(id_, None)
            if lease is not None:
                await self._retire(lease)
            yield

    def is_open(self, id_: str) -> bool:
        """Return True if this process has the engine's files open."""
        return id_ in self._leases

    async def close_damaged(self) -> None:
        """Closes the engines whose file a request found damaged, and looks into it meanwhile."""
        damaged = [id_ for id_, lease in self._leases.items() if lease.engine.is_damaged()]
        suspects, self._suspects = self._suspects, set()
        for id_ in {*damaged, *suspects}:
            async with self.closed(id_):
                await asyncio.to_thread(self._folders.confirm, id_)

    async def try_open(self, record: EngineRecord) -> None:
        """Opens the engine beside the one that serves, and closes it. Raises Halt: what keeps it from being opened."""
        engine = await self._open_engine(record, await asyncio.to_thread(self._folders.make, record.ref.id))
        await engine.close()

    async def aclose(self) -> None:
        """Closes all engines."""
        while self._leases:
            _, lease = self._leases.popitem()
            await self._retire(lease)

    async def _leave(self, lease: _Lease) -> None:
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
        try:
            await self._evict()
        except BaseException:
            await self._leave(lease)
            raise
        return lease

    async def _open(self, record: EngineRecord) -> _Lease:
        if record.awaits:
            raise Halt(Waiting("Restoring", "the engine waits for its backup: `tenantry restore FILE` brings it"))
        folder = await asyncio.to_thread(self._folder, record)
        try:
            return _Lease(await self._open_engine(record, folder))
        except Halt as halt:
            if halt.verdict.reason == DATABASE_DAMAGED:
                self._suspects.add(record.ref.id)
            raise

    def _folder(self, record: EngineRecord) -> Path:
        """Return the folder of an engine that is whole. Blocks. Raises Halt: DataMissing, and those of `make`."""
        lost = self._folders.lost(record.ref)
        if lost is not None:
            raise data_missing(*lost[1])
        return self._folders.make(record.ref.id)

    async def _evict(self) -> None:
        surplus = len(self._leases) - self._capacity
        if surplus > 0:
            for id_ in [id_ for id_, lease in self._leases.items() if not lease.users][:surplus]:
                lease = self._leases.pop(id_)
                await self._retire(lease)

    async def _retire(self, lease: _Lease) -> None:
        lease.retired = True
        lease.engine.end_streams()
        if not lease.users:
            await lease.engine.close()

    def _lock(self, id_: str) -> asyncio.Lock:
        lock = self._locks.get(id_)
        if lock is None:
            lock = self._locks[id_] = asyncio.Lock()
        return lock


def _located(scope: Scope) -> tuple[str, str, str, str]:
    """Return the slugs of tenant and environment, the engine's root and the whole path; slugs of `""` for no engine."""
    outer, path = scope.get("root_path", ""), scope["path"]
    route = scope.get(LOCATED)
    if route is not None:
        return route.tenant_slug, route.slug, outer, path
    parts = path.removeprefix(outer).split("/", 4)
    if len(parts) < 4 or parts[1] != "e":
        return "", "", outer, path
    return parts[2], parts[3], f"{outer}/e/{parts[2]}/{parts[3]}", path if len(parts) > 4 else f"{path}/"


def _served_of(request: Request) -> Served:
    served: Served = request.scope[_SERVED]
    return served
