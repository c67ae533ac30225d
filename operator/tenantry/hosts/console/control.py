"""The control socket: a Console over HTTP, only for the master of the state folder (0600; it knows no roles)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import orjson
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.hosts.console.codec import CALLS, HALTED, RELEASE, UPLOAD, arguments_of, encoded, halt_to_json, other_release
from tenantry.hosts.console.protocol import Console
from tenantry.model.verdicts import Halt, Transient
from tenantry.ports import Event
from tenantry.rest.release import VERSION


def control_app(console: Console, incoming: Path, ending: asyncio.Event) -> Starlette:
    """The ASGI application of the control socket.

    incoming: the folder for packages on their way; it exists. ending: once set, watches end.
    """
    routes = _Routes(console, incoming, ending)
    return Starlette(
        routes=[
            Route(f"/{UPLOAD}", routes.put_package, methods=["POST"]),
            Route("/watch/{kind}", routes.watch),
            Route("/{call}", routes.call, methods=["POST"]),
        ],
        middleware=[Middleware(_OfOneRelease)],
        exception_handlers={Halt: _on_halt},
    )


async def _on_halt(request: Request, error: Exception) -> Response:
    assert isinstance(error, Halt)
    return _json(halt_to_json(error), HALTED)


class _OfOneRelease:
    """Refuses a request of another release before anything reads it, and names the release in each answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[RELEASE] = VERSION
            await send(message)

        theirs = Headers(scope=scope).get(RELEASE, "") if scope["type"] == "http" else VERSION
        refused = None if theirs == VERSION else _json(halt_to_json(other_release(theirs, VERSION)), HALTED)
        await (refused or self._app)(scope, receive, named)


class _Routes:
    def __init__(self, console: Console, incoming: Path, ending: asyncio.Event) -> None:
        self._console = console
        self._incoming = incoming
        self._ending = ending

    async def call(self, request: Request) -> Response:
        """Answer any call of Console that takes and returns JSON."""
        name = request.path_params["call"]
        if name not in CALLS:
            raise HTTPException(404)
        arguments = arguments_of(CALLS[name], await request.body())
        try:
            return _json(await getattr(self._console, name)(*arguments))
        except OSError as error:  # of a file that the caller named: the reason is theirs to read
            raise Halt(Transient("FileError", f"{error.filename or 'file'}: {(error.strerror or str(error)).lower()}")) from error

    async def put_package(self, request: Request) -> Response:
        path = self._incoming / f"control-{uuid4().hex}"
        try:
            await _save(request, path)
            return _json(await self._console.put_package(request.query_params.get("tenant", ""), path))
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def watch(self, request: Request) -> Response:
        return StreamingResponse(self._events(request.path_params["kind"]), media_type="application/x-ndjson")

    async def _events(self, kind: str) -> AsyncIterator[bytes]:
        try:
            async for event in _until(self._ending, self._console.watch(kind)):
                yield orjson.dumps({"type": event.type, "document": event.document}) + b"\n"
        except Halt as halt:  # the answer has begun: the Halt is its last line
            yield orjson.dumps(halt_to_json(halt)) + b"\n"


async def _until(ending: asyncio.Event, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """The events, until the end is set."""
    ended = asyncio.create_task(ending.wait())
    try:
        while True:
            coming = asyncio.ensure_future(anext(events))
            await asyncio.wait((coming, ended), return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                return
            yield coming.result()
    finally:
        ended.cancel()


async def _save(request: Request, path: Path) -> None:
    with await asyncio.to_thread(path.open, "wb") as file:
        async for chunk in request.stream():
            await asyncio.to_thread(file.write, chunk)


def _json(value: object, status: int = 200) -> Response:
    return Response(encoded(value), status, media_type="application/json")
