"""Operations: records of work, their logs, and their cancellation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from typing import get_args

from sse_starlette.event import ensure_bytes
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tenantry.api import tenancy
from tenantry.api.facade_context import FacadeContext
from tenantry.api.http.bodies import OperationBody, OperationQueuedResponse
from tenantry.api.reading.answers import list_answer, listing_answer, queued, row_answer
from tenantry.api.reading.waiting import until
from tenantry.api.writing.preconditions import Marks
from tenantry.api.writing.queueing import cancelled
from tenantry.api.writing.writes import WriteContext
from tenantry.kinds.operation.spec import Action, Operation, State
from tenantry.model.resource import REQUEST_KEY, Document, format_time, held_of, parse_time
from tenantry.model.verdicts import Conflict
from tenantry.rest.bodies import invalid, read_bytes
from tenantry.rest.routes import PAGED, TAGGED, Query, Route
from tenantry.runtime.operations.documents import DELETION, LOG_LIMIT

HEARTBEAT_S = 15.0
KEPT_BYTES, MOST_KEPT = 16 << 10, 128
"""The events of an operation that has ended are kept up to that size, and of so many operations."""
NOT_STORED = {"Cache-Control": "no-store"}
FILTERS = (
    Query("tenantId", "Only those of this tenant, also when it is deleted."),
    Query("environmentId", "Only those about this environment, or about what is in it, also when it is deleted."),
    Query("actionType", "Only those of this action.", get_args(Action)),
    Query("status", "Only those in this state.", get_args(State)),
    Query("since", "Only those made at this time or later, as RFC 3339 has it.", format="date-time"),
)


class Operations:
    """GET /operations, their logs, and POST cancel."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context
        self._ended: OrderedDict[str, bytes] = OrderedDict()
        """The events of operations that have ended, by their ids: they stay as they are."""

    def routes(self) -> Sequence[Route]:
        one = "/operations/{id}"
        return [
            Route("GET", "/operations", self.list, 200, list[OperationBody], (400, 500), (*PAGED, *FILTERS), TAGGED),
            Route("GET", one, self.get, 200, OperationBody, (404,), (), TAGGED),
            Route("GET", f"{one}/logs", self.logs, 200, None, (404,)),
            Route(
                "POST", f"{one}/cancel", self.cancel, 202, OperationQueuedResponse, (400, 403, 404, 503), ("dryRun",),
                ("Idempotency-Key", "If-Plan"),
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        """List the operations that the caller may see, newest first."""
        principal = await self._context.enter(request)
        held, scope = self._context.operations, tenancy.operations(self._context, principal)
        keys, since = _filters(request)
        if not keys and since is None:
            return list_answer(request, held, scope)
        listing = held.filtered(scope, keys, lambda row: since is None or parse_time(row.created) >= since)
        return listing_answer(request, listing, newest_first=True)

    async def get(self, request: Request) -> Response:
        """Get one operation."""
        principal = await self._context.enter(request)
        return row_answer(request, tenancy.operation(self._context, principal, request.path_params["id"]))

    async def logs(self, request: Request) -> Response:
        """The whole log, as text; with `Accept: text/event-stream` line by line while the operation runs."""
        context = self._context
        principal = await context.enter(request)
        operation = context.operation(tenancy.operation(context, principal, request.path_params["id"]))
        if "text/event-stream" in request.headers.get("accept", ""):
            if operation.finished:  # a stream of its events would cost tasks and timers
                return Response(await self._events(operation), 200, NOT_STORED, "text/event-stream")
            return EventSourceResponse(self._lines(operation.id))
        return PlainTextResponse(await self._whole(operation))

    async def cancel(self, request: Request) -> Response:
        """Cancel an operation that has not ended."""
        context = self._context
        principal = await context.enter(request)
        row = tenancy.operation(context, principal, request.path_params["id"])
        principal.require_writer()
        marks = context.marks(request, principal, await read_bytes(request))
        write = partial(self._cancel, id_=row.id, marks=marks)
        stored = await context.make(request, principal, write)
        return queued(context.versions.headers(stored), row.id, f"operation {row.id} is cancelled")

    async def _cancel(self, writes: WriteContext, *, id_: str, marks: Marks | None) -> Document:
        while True:
            document = await writes.store.get(Operation.named(id_))
            operation = Operation.model_validate(document)
            if marks is not None and operation.metadata.annotations.get(REQUEST_KEY) == marks.key and operation.finished:
                return document  # by this very request, sent before
            if operation.finished:
                raise invalid("", f"the operation has ended: {operation.status.result}")
            if operation.spec.cause == DELETION:
                raise invalid("", "a deletion cannot be cancelled")
            now = format_time(self._context.facade.now())
            ended = cancelled(document, now, marks.annotations() if marks else {}, LOG_LIMIT)
            try:
                return await writes.store.replace(ended, held_of(document).version)
            except Conflict:
                continue  # it has just gone on

    async def _whole(self, operation: Operation) -> str:
        return await self._context.facade.logs.read(operation.id) or operation.status.logs

    async def _events(self, operation: Operation) -> bytes:
        """All events of an operation that has ended."""
        known = self._ended.get(operation.id)
        if known is not None:
            return known
        lines = (await self._whole(operation)).splitlines()
        events = [*({"data": line} for line in lines), _end(operation)]
        whole = b"".join([ensure_bytes(each, EventSourceResponse.DEFAULT_SEPARATOR) for each in events])
        if len(whole) <= KEPT_BYTES:
            self._ended[operation.id] = whole
            if len(self._ended) > MOST_KEPT:
                self._ended.popitem(last=False)
        return whole

    async def _lines(self, id_: str) -> AsyncIterator[dict[str, str]]:
        """An event a line, and at last `end` with the result."""
        cache, ref = self._context.cache, Operation.named(id_)
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
                yield _end(operation)
                return

            def moved(known: int = version) -> bool | None:
                now = cache.entry(ref)
                return True if now is None or now.version != known else None

            await until(cache, moved, lambda seen: seen.ref == ref, HEARTBEAT_S)


def _end(operation: Operation) -> dict[str, str]:
    return {"event": "end", "data": operation.status.result}


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
