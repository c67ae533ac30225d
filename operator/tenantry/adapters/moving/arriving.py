"""An engine that comes into a pod of its own: the pod takes copies of it, and serves it once it has the last one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.adapters.local.reading import check
from tenantry.adapters.local.staging import Staging
from tenantry.adapters.moving.coming import FILES, KEPT, spread
from tenantry.adapters.moving.leaving import Packed, held_archive
from tenantry.adapters.moving.source import PREFIX, arrived, audience_of_move, here
from tenantry.adapters.moving.wire import PREPARED, SIGNER, TOKEN
from tenantry.adapters.pools.operators import OperatorKeys, answered
from tenantry.model.facts import EngineRef, Trust
from tenantry.model.verdicts import Halt, Invalid, Problem, Transient
from tenantry.rest.bodies import json_response, read_bytes
from tenantry.rest.disk import write_once, writing_to_disk
from tenantry.rest.problems import problem

_TAKEN, _GIVEN_UP = "taken", "given-up"


class Arrival:
    """The copies of an engine in the volume of its pod. Its calls block, and raise OSError."""

    def __init__(self, data: Path, ref: EngineRef) -> None:
        self._data = data
        self._ref = ref
        self._kept = data / KEPT
        self._kept.mkdir(mode=0o700, exist_ok=True)
        self._staging = Staging(self._kept)
        self._staging.clear()

    @property
    def scratch(self) -> Path:
        """A folder for an archive that is not checked yet."""
        return self._kept

    @property
    def state(self) -> str:
        """`Copied` if a copy of the engine lies ready, else `Reserved`."""
        return "Copied" if self._staging.holds(self._ref.id) or self._taken() else "Reserved"

    def blocks(self) -> bytes:
        """Return what the old place must know of the copy that lies ready, `b""` for nothing."""
        return self._staging.earlier(self._ref)

    def put(self, archive: Path, copy: Packed) -> None:
        """Lay a copy ready; it replaces an earlier one. Raises Invalid, a Transient Halt (MoveStale)."""
        self._check_wanted()
        checked = check(archive, Trust((copy.signer,)))
        if self._taken() != copy.token:  # else it is here already, and only had to be opened
            self._staging.put(checked, self._ref, copy.token, as_file=True)

    def take(self, token: str) -> None:
        """Make the copy of that token the engine of this volume. Idempotent. Raises a Transient Halt (MoveStale)."""
        self._check_wanted()
        if token in ("", PREPARED) or token not in (self._taken(), self._staging.mark(self._ref)):
            raise Halt(Transient("MoveStale", "the copy in the pod is not that of the engine's last state"))
        write_once(self._kept / _TAKEN, token.encode())
        self._staging.take(self._ref, self._kept / FILES)
        spread(self._data)

    def give_up(self) -> None:
        """Take no copy any more: the engine does not come. Idempotent. Raises a Waiting Halt (EngineThere) if it came."""
        if self._taken():
            raise arrived(self._ref.id)
        write_once(self._kept / _GIVEN_UP, b"")

    def end(self) -> None:
        """Remove what is no longer needed, once the engine is served."""
        shutil.rmtree(self._kept, ignore_errors=True)

    def _check_wanted(self) -> None:
        if (self._kept / _GIVEN_UP).exists():
            raise Halt(Transient("MoveStale", "the move into this pod was given up"))

    def _taken(self) -> str:
        try:
            return (self._kept / _TAKEN).read_text()
        except FileNotFoundError:
            return ""


class ComingEngine:
    """The ASGI application of a pod into which an engine comes. serve: opens it, and returns its application."""

    def __init__(self, arrival: Arrival, id_: str, keys: OperatorKeys, serve: Callable[[], Awaitable[ASGIApp]]) -> None:
        self._arrival = arrival
        self._id = id_
        self._keys = keys
        self._serve = serve
        self._served: ASGIApp | None = None
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._served is not None:
            await self._served(scope, receive, send)
            return
        await (await self._answer(Request(scope, receive)))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if path in ("/healthz", "/readyz"):  # the operator reaches ready pods only
            return json_response({"status": "ok"})
        if not path.startswith(PREFIX):
            return problem(503, "the engine comes from another place, and is not served here yet", {"Retry-After": "1"}, "Moving")

        async def carry_out() -> Response:
            if request.method != "POST":
                raise Invalid((Problem("method", "must be POST"),))
            return await self._carry_out(path.removeprefix(PREFIX), request)

        return await answered(request, self._keys, audience_of_move(self._id), "of a move", carry_out)

    async def _carry_out(self, verb: str, request: Request) -> Response:
        if verb == "receive":
            await self._receive(Packed(request.headers[TOKEN], request.headers[SIGNER], request.stream()))
            return json_response({})
        body = orjson.loads(await read_bytes(request)) if verb == "take" else {}
        async with self._turn:
            if self._served is not None:
                return here(verb, self._id)
            match verb:
                case "look":
                    return json_response({"coming": await asyncio.to_thread(lambda: self._arrival.state)})
                case "blocks":
                    return Response(await asyncio.to_thread(self._arrival.blocks), media_type="application/octet-stream")
                case "cancel":
                    await asyncio.to_thread(self._arrival.give_up)
                case "take":
                    await asyncio.to_thread(self._arrival.take, str(body["token"]))
                    self._served = await self._serve()
                    await asyncio.to_thread(self._arrival.end)
                case _:
                    raise Invalid((Problem("path", "must name a command of a move"),))
        return json_response({})

    async def _receive(self, copy: Packed) -> None:
        with writing_to_disk():
            async with held_archive(copy, self._arrival.scratch) as archive, self._turn:
                if self._served is not None:
                    raise arrived(self._id)
                await asyncio.to_thread(self._arrival.put, archive, copy)
