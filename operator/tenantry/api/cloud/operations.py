"""Operations: records of work, their logs, and their cancellation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tenantry.api import tenancy
from tenantry.api.answers import list_answer, queued, row_answer
from tenantry.api.bodies import OperationBody, OperationQueuedResponse
from tenantry.api.front import Front
from tenantry.api.preconditions import Marks
from tenantry.api.queueing import cancelled
from tenantry.api.routes import PAGED, TAGGED, Route
from tenantry.api.waiting import until
from tenantry.api.writes import Desk
from tenantry.kinds.operation.spec import Operation
from tenantry.model.resource import REQUEST_KEY, Document, format_time, held_of
from tenantry.model.verdicts import Conflict
from tenantry.rest.bodies import invalid, read_bytes
from tenantry.runtime.operations import DELETION, LOG_LIMIT

HEARTBEAT_S = 15.0


class Operations:
    """GET /operations, their logs, and POST cancel."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def routes(self) -> Sequence[Route]:
        one = "/operations/{id}"
        return [
            Route("GET", "/operations", self.list, 200, list[OperationBody], (400, 500), PAGED, TAGGED),
            Route("GET", one, self.get, 200, OperationBody, (404,), (), TAGGED),
            Route("GET", f"{one}/logs", self.logs, 200, None, (404,)),
            Route(
                "POST", f"{one}/cancel", self.cancel, 202, OperationQueuedResponse, (400, 403, 404, 503), (),
                ("Idempotency-Key", "If-Plan"),
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        """List the operations that the caller may see, newest first."""
        principal = await self._front.enter(request)
        return list_answer(request, self._front.operations, tenancy.operations(self._front, principal))

    async def get(self, request: Request) -> Response:
        """Get one operation."""
        principal = await self._front.enter(request)
        return row_answer(request, tenancy.operation(self._front, principal, request.path_params["id"]))

    async def logs(self, request: Request) -> Response:
        """The whole log, as text; with `Accept: text/event-stream` line by line while the operation runs."""
        front = self._front
        principal = await front.enter(request)
        operation = front.operation(tenancy.operation(front, principal, request.path_params["id"]))
        if "text/event-stream" in request.headers.get("accept", ""):
            return EventSourceResponse(self._lines(operation.id))
        return PlainTextResponse(await self._whole(operation))

    async def cancel(self, request: Request) -> Response:
        """Cancel an operation that has not ended."""
        front = self._front
        principal = await front.enter(request)
        row = tenancy.operation(front, principal, request.path_params["id"])
        principal.require_writer()
        marks = front.marks(request, principal, await read_bytes(request))
        write = partial(self._cancel, id_=row.id, marks=marks)
        if (plan := await front.planned(request, principal, write)) is not None:
            return plan
        stored = await write(front.desk)
        return queued(front.versions.headers(stored), row.id, f"operation {row.id} is cancelled")

    async def _cancel(self, desk: Desk, *, id_: str, marks: Marks | None) -> Document:
        while True:
            document = await desk.store.get(Operation.named(id_))
            operation = Operation.model_validate(document)
            if marks is not None and operation.metadata.annotations.get(REQUEST_KEY) == marks.key and operation.finished:
                return document  # by this very request, sent before
            if operation.finished:
                raise invalid("", f"the operation has ended: {operation.status.result}")
            if operation.spec.cause == DELETION:
                raise invalid("", "a deletion cannot be cancelled")
            now = format_time(self._front.facade.now())
            ended = cancelled(document, now, marks.annotations() if marks else {}, LOG_LIMIT)
            try:
                return await desk.store.replace(ended, held_of(document).version)
            except Conflict:
                continue  # it has just gone on

    async def _whole(self, operation: Operation) -> str:
        return await self._front.facade.logs.read(operation.id) or operation.status.logs

    async def _lines(self, id_: str) -> AsyncIterator[dict[str, str]]:
        """An event a line, and at last `end` with the result."""
        cache, ref = self._front.cache, Operation.named(id_)
        told, version = 0, -1
        while True:
            entry = cache.entry(ref)
            if entry is None:
                return
            version = entry.version
            operation = Operation.model_validate_json(entry.raw)
            whole = await self._whole(operation)
            for line in whole[told:].splitlines():
                yield {"data": line}
            told = len(whole)
            if operation.finished:
                yield {"event": "end", "data": operation.status.result}
                return

            def moved(known: int = version) -> bool | None:
                now = cache.entry(ref)
                return True if now is None or now.version != known else None

            await until(cache, moved, lambda seen: seen.ref == ref, HEARTBEAT_S)
