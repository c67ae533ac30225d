"""Operations: records of work, their logs, and their cancellation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from typing import get_args

from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tenantry.api import tenancy
from tenantry.api.answers import list_answer, listing_answer, queued, row_answer
from tenantry.api.bodies import OperationBody, OperationQueuedResponse
from tenantry.api.front import Front
from tenantry.api.preconditions import Marks
from tenantry.api.queueing import cancelled
from tenantry.api.routes import PAGED, TAGGED, Query, Route
from tenantry.api.waiting import until
from tenantry.api.writes import Desk
from tenantry.kinds.operation.spec import Action, Operation, State
from tenantry.model.resource import REQUEST_KEY, Document, format_time, held_of, parse_time
from tenantry.model.verdicts import Conflict
from tenantry.rest.bodies import invalid, read_bytes
from tenantry.runtime.operations import DELETION, LOG_LIMIT

HEARTBEAT_S = 15.0
FILTERS = (
    Query("tenantId", "Only those of this tenant, also when it is deleted."),
    Query("environmentId", "Only those about this environment, or about what is in it, also when it is deleted."),
    Query("actionType", "Only those of this action.", get_args(Action)),
    Query("status", "Only those in this state.", get_args(State)),
    Query("since", "Only those made at this time or later, as RFC 3339 has it.", format="date-time"),
)


class Operations:
    """GET /operations, their logs, and POST cancel."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def routes(self) -> Sequence[Route]:
        one = "/operations/{id}"
        return [
            Route("GET", "/operations", self.list, 200, list[OperationBody], (400, 500), (*PAGED, *FILTERS), TAGGED),
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
        held, scope = self._front.operations, tenancy.operations(self._front, principal)
        keys, since = _filters(request)
        if not keys and since is None:
            return list_answer(request, held, scope)
        listing = held.filtered(scope, keys, lambda row: since is None or parse_time(row.created) >= since)
        return listing_answer(request, listing, newest_first=True)

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


def _filters(request: Request) -> tuple[list[str], datetime | None]:
    """The index keys that are asked for, and the earliest time. Raises Invalid."""
    keys = []
    for name, _, choices, _ in FILTERS[:-1]:
        value = request.query_params.get(name, "")
        if value and choices and value not in choices:
            raise invalid(name, f"must be one of {', '.join(choices)}")
        if value:
            keys.append(f"{name}={value}")
    text = request.query_params.get("since", "")
    return keys, _time(text) if text else None


def _time(text: str) -> datetime:
    moment: datetime | None
    try:
        moment = parse_time(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise invalid("since", "must be a time with its zone, such as 2026-11-23T08:00:00Z; write + as %2B")
    return moment
