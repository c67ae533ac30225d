"""The control socket: a Console over HTTP, for the master of the state folder alone (0600; it knows no roles).

Answers are the JSON of what Console returns; a Halt is answered with what its receiver needs to raise it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tenantry.hosts.console import Approved, Console
from tenantry.model.resource import Ref
from tenantry.model.verdicts import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Halt,
    Invalid,
    NotFound,
    Problem,
    Stalled,
    Transient,
    Unauthorized,
    Waiting,
)
from tenantry.ports import Event

SOCKET = "control.sock"
HALTED = 409
"""The status of every answer that is a Halt."""
_NAMED: dict[str, type[Halt]] = {
    each.__name__: each for each in (NotFound, AlreadyExists, Conflict, Unauthorized, Forbidden, Expired)
}
_VERDICTS: dict[str, type[Stalled] | type[Waiting] | type[Transient]] = {
    each.__name__: each for each in (Stalled, Waiting, Transient)
}


def halt_to_json(halt: Halt) -> dict[str, Any]:
    """A Halt, so that `halt_from_json` makes an equal one."""
    problems = [[problem.field, problem.reason] for problem in halt.problems] if isinstance(halt, Invalid) else []
    verdict = halt.verdict
    return {
        "halt": type(halt).__name__,
        "verdict": type(verdict).__name__,
        "reason": verdict.reason,
        "message": verdict.message,
        "problems": problems,
    }


def halt_from_json(body: Mapping[str, Any]) -> Halt:
    """Raises KeyError for what `halt_to_json` did not write."""
    if body["halt"] == Invalid.__name__:
        return Invalid(tuple(Problem(field, reason) for field, reason in body["problems"]))
    if body["halt"] in _NAMED:
        # Each of these takes its message alone.
        return _NAMED[body["halt"]](body["message"])
    return Halt(_VERDICTS[body["verdict"]](body["reason"], body["message"]))


def control_app(console: Console, incoming: Path, ending: asyncio.Event) -> Starlette:
    """The ASGI application of the control socket.

    incoming: the folder for packages on their way; it exists. ending: once set, watches end.
    """
    routes = _Routes(console, incoming, ending)
    return Starlette(
        routes=[
            Route("/about", routes.about),
            Route("/objects/{kind}", routes.list),
            Route("/objects", routes.apply, methods=["POST"]),
            Route("/object", routes.get),
            Route("/object", routes.patch, methods=["PATCH"]),
            Route("/object", routes.delete, methods=["DELETE"]),
            Route("/watch/{kind}", routes.watch),
            Route("/logs/{operation}", routes.log),
            Route("/source", routes.source),
            Route("/plan", routes.plan, methods=["POST"]),
            Route("/planned", routes.apply_plan, methods=["POST"]),
            Route("/sources/{name}/sync", routes.sync, methods=["POST"]),
            Route("/sources/{name}/approval", routes.approve, methods=["POST"]),
            Route("/packages", routes.put_package, methods=["POST"]),
            Route("/packages/{sha256}", routes.find_package),
            Route("/packages/{sha256}/copy", routes.copy_package, methods=["POST"]),
            Route("/backups", routes.backups),
            Route("/backups", routes.backup, methods=["POST"]),
            Route("/restores", routes.restore, methods=["POST"]),
            Route("/token", routes.token, methods=["POST"]),
        ],
        exception_handlers={Halt: _on_halt},
    )


async def _on_halt(request: Request, error: Exception) -> Response:
    assert isinstance(error, Halt)
    return _json(halt_to_json(error), HALTED)


class _Routes:
    def __init__(self, console: Console, incoming: Path, ending: asyncio.Event) -> None:
        self._console = console
        self._incoming = incoming
        self._ending = ending

    async def about(self, request: Request) -> Response:
        return _json(asdict(await self._console.about()))

    async def list(self, request: Request) -> Response:
        return _json(list(await self._console.list(request.path_params["kind"])))

    async def get(self, request: Request) -> Response:
        return _json(await self._console.get(_ref(request)))

    async def apply(self, request: Request) -> Response:
        return _json(asdict(await self._console.apply(orjson.loads(await request.body()))))

    async def patch(self, request: Request) -> Response:
        return _json(await self._console.patch(_ref(request), orjson.loads(await request.body())))

    async def delete(self, request: Request) -> Response:
        return _json(await self._console.delete(_ref(request)))

    async def watch(self, request: Request) -> Response:
        return StreamingResponse(self._events(request.path_params["kind"]), media_type="application/x-ndjson")

    async def log(self, request: Request) -> Response:
        return PlainTextResponse(await self._console.log(request.path_params["operation"]))

    async def source(self, request: Request) -> Response:
        return _json(asdict(await self._console.source()))

    async def plan(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        return _json(asdict(await self._console.plan(body["source"], body["name"])))

    async def apply_plan(self, request: Request) -> Response:
        source, name, digest, changes = orjson.loads(await request.body())
        kept = await self._console.apply_plan(Approved(source, name, digest, tuple(changes)))
        return _json([each._asdict() for each in kept])

    async def sync(self, request: Request) -> Response:
        return _json(asdict(await self._console.sync(request.path_params["name"])))

    async def approve(self, request: Request) -> Response:
        return _json(list(await self._console.approve(request.path_params["name"])))

    async def put_package(self, request: Request) -> Response:
        path = self._incoming / f"control-{uuid4().hex}"
        try:
            await _save(request, path)
            return _json(asdict(await self._console.put_package(request.query_params.get("tenant", ""), path)))
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def find_package(self, request: Request) -> Response:
        facts = await self._console.find_package(request.query_params.get("tenant", ""), request.path_params["sha256"])
        return _json(asdict(facts) if facts else None)

    async def copy_package(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        return await _of_files(self._console.copy_package(body["tenant"], request.path_params["sha256"], body["target"]))

    async def backups(self, request: Request) -> Response:
        return _json([asdict(each) for each in await self._console.backups()])

    async def backup(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        return await _of_files(self._console.backup(Ref(*body["environment"]), body["target"]))

    async def restore(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        return await _of_files(self._console.restore(body["archive"], body["namespace"], body["name"]))

    async def token(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        return _json(await self._console.token(body["username"], timedelta(seconds=body["ttl_s"])))

    async def _events(self, kind: str) -> AsyncIterator[bytes]:
        try:
            async for event in _until(self._ending, self._console.watch(kind)):
                yield orjson.dumps({"type": event.type, "document": event.document}) + b"\n"
        except Halt as halt:  # the answer has begun: it tells the Halt as its last line
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


async def _of_files(work: Awaitable[Any]) -> Response:
    """Its answer. What the system says of a file that the caller named is his to read."""
    try:
        return _json(await work)
    except OSError as error:
        raise Halt(Transient("FileError", f"{error.filename or 'file'}: {(error.strerror or str(error)).lower()}")) from error


async def _save(request: Request, path: Path) -> None:
    with await asyncio.to_thread(path.open, "wb") as file:
        async for chunk in request.stream():
            await asyncio.to_thread(file.write, chunk)


def _ref(request: Request) -> Ref:
    query = request.query_params
    return Ref(query["kind"], query.get("namespace", ""), query["name"])


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value, default=list), status, media_type="application/json")
