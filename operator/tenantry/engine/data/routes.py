"""/data: rows of the installed apps' tables, for whoever is signed in, within the role that is granted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import orjson
import sqlalchemy as sa
from pydantic import ConfigDict, RootModel
from starlette.requests import Request
from starlette.responses import Response

from tenantry.engine.data.describe import described
from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.live.endpoint import SEGMENT, changes_of, is_live
from tenantry.engine.data.reading.keys import key_of
from tenantry.engine.data.reading.lists import SHORT_QUERY, ListedRows, is_quick, is_short, list_response
from tenantry.engine.data.reading.lists import Work as ListWork
from tenantry.engine.data.reading.reader import Reader, Tagged
from tenantry.engine.data.reading.selection import Visible, parse_select
from tenantry.engine.data.rows import MOST_ROWS, Rows
from tenantry.engine.data.signing import DataEngine, Sender, Signed, proven
from tenantry.engine.data.writing.given import (
    BODY_LIMIT,
    LINES_LIMIT,
    NDJSON,
    alone,
    array_chunks,
    in_array,
    in_line,
    is_lines,
    line_chunks,
    parsed,
)
from tenantry.engine.data.writing.preferences import MERGE, ON_CONFLICT, PREFER, WritePreferences, preferences_of
from tenantry.engine.principal import RowCaller, Unproven
from tenantry.engine.sql.driver import Reading
from tenantry.engine.sql.quick.replay import Replay
from tenantry.engine.sql.short_reads import NotShort
from tenantry.packages.manifest import Grant
from tenantry.rest.bodies import invalid, names_tag, read_bytes
from tenantry.rest.fairness.lanes import Overloaded
from tenantry.rest.fairness.long_steps import LARGE, LONG_STEPS
from tenantry.rest.leaving import while_connected
from tenantry.rest.routes import Query, Route, refuse_unknown
from tenantry.rest.uploads import Uploads

SMALL_BODY = 64 << 10
"""Bytes of a body that is read before the caller's rights are looked up, in the one transaction of the request."""
MOST_LOADS = 4
"""NDJSON bodies of one engine that are received or inserted at once; more are refused."""
EVENTS: dict[str, Any] = {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
SELECT = Query("select", "Columns to answer, in this order, divided by commas; * for all.")
T = TypeVar("T")


class OneRow(RootModel[dict[str, Any]]):
    """A row by its columns; the app's own openapi.json describes them."""

    model_config = ConfigDict(defer_build=True)


class ManyRows(RootModel[list[dict[str, Any]]]):
    """Rows."""

    model_config = ConfigDict(defer_build=True)


class OneOrManyRows(RootModel[dict[str, Any] | list[dict[str, Any]]]):
    """A row, or rows."""

    model_config = ConfigDict(defer_build=True)


ROWS_BODY: dict[str, Any] = {
    "content": {
        "application/json": {"schema": OneOrManyRows.model_json_schema()},
        NDJSON: {"schema": {"type": "string", "description": "A row on each line."}},
    },
    "required": True,
}


def data_rows(signed: Signed, renewed: Signed, folder: Path) -> list[Route]:
    """Every route of the data API, without the prefix /api/v1.

    renewed: signs a request in once more, uncounted. folder: for large bodies until they are inserted; it exists.
    """
    routes = _DataRoutes(signed, renewed, Uploads(folder, LINES_LIMIT))
    prefer, on_conflict = Query("Prefer", PREFER), Query("on_conflict", ON_CONFLICT)
    return [
        Route("GET", "/data/{app}/openapi.json", routes.describe, 200, OneRow),
        Route("GET", "/data/{app}/{table}", routes.list_rows, 200, ManyRows, open=True),
        Route(
            *("POST", "/data/{app}/{table}", routes.insert, 201, OneOrManyRows),
            query=(on_conflict,),
            headers=(prefer,),
            body=ROWS_BODY,
        ),
        Route("GET", "/data/{app}/{table}/changes", routes.changes, 200, EVENTS, open=True),
        Route("GET", "/data/{app}/{table}/{key:path}", routes.read, 200, OneRow, query=(SELECT,)),
        Route("PATCH", "/data/{app}/{table}/{key:path}", routes.change, 200, OneRow, headers=(prefer,), body=OneRow),
        Route("DELETE", "/data/{app}/{table}/{key:path}", routes.delete, 204, None),
    ]


def list_routes(path: str, signed: Signed, folder: Path) -> list[Route]:
    """Return the route that lists rows, at another path and for other senders. folder: as of `data_rows`."""
    routes = _DataRoutes(signed, signed, Uploads(folder, LINES_LIMIT))
    return [Route("GET", path, routes.list_rows, 200, ManyRows, open=True)]


@dataclass(frozen=True)
class _Body:
    """A JSON body that has been read."""

    raw: bytes

    @property
    def large(self) -> bool:
        return len(self.raw) > SMALL_BODY

    @property
    def is_small_row(self) -> bool:
        """Return True for one row that takes little time to parse."""
        return len(self.raw) < LARGE and self.raw.lstrip()[:1] == b"{"

    def parsed(self) -> Any:
        """The value. Raises Invalid."""
        return LONG_STEPS.over(len(self.raw), lambda: parsed(self.raw))


class _DataRoutes:
    def __init__(self, signed: Signed, renewed: Signed, lines: Uploads) -> None:
        self._signed = signed
        self._renewed = renewed
        self._lines = lines
        self._loads: WeakKeyDictionary[DataEngine, int] = WeakKeyDictionary()

    async def describe(self, request: Request, app: str) -> Response:
        """Describe the tables of an installed app, as OpenAPI, as far as the caller may use them."""
        engine, caller = await self._signed(request)
        base = request.url.path.removesuffix("/openapi.json")

        def work(known: RowCaller) -> Coroutine[Any, Any, dict[str, Any]]:
            return engine.rows.run(app, known, lambda _, exposure, roles: described(exposure, roles, base))

        body = await while_connected(request, proven(caller, work))
        return Response(orjson.dumps(body), media_type="application/json")

    async def list_rows(self, request: Request, app: str, table: str) -> Response:
        """List rows: filters in PostgREST's syntax, select, order, limit, continue. `Accept` may ask for CSV or NDJSON."""
        engine, caller = await self._signed(request)
        short, quick = is_short(request), is_quick(request)

        async def in_table(work: ListWork, again: bool) -> ListedRows:
            sender = await self._renewed(request) if again else (engine, caller)
            how = {"short": short and not again, "quick": quick and not again}
            return await self._read_in(request, app, table, work, **how, sender=sender)

        return await list_response(request, in_table, engine.live.enter_export)

    async def changes(self, request: Request, app: str, table: str) -> Response:
        """Follow the changes of a table, as server-sent events."""
        if not is_live(request):
            refuse_unknown(request.scope, (SELECT.name,))
            return await self.read(request, app, table, SEGMENT.decode())
        refuse_unknown(request.scope, ())
        return await while_connected(request, changes_of(request, app, table, self._signed, self._renewed))

    async def read(self, request: Request, app: str, table: str, key: str) -> Response:
        """Read one row by its primary key."""

        asked = request.query_params.get("select", "*")

        def work(reader: Reader, exposed: Exposed, visible: Visible) -> Tagged:
            return reader.read(key_of(request.scope, exposed), parse_select(exposed, asked, visible))

        quick = len(asked) <= SHORT_QUERY
        found = await self._read_in(request, app, table, work, short=quick and "(" not in asked, quick=quick)
        if names_tag(request.headers.get("if-none-match"), found.tag):
            return Response(None, 304, {"ETag": found.tag})
        return _row_response(found)

    async def insert(self, request: Request, app: str, table: str) -> Response:
        """Insert one row, or many in one transaction: an object, an array, or NDJSON. `Prefer` may ask to merge them."""
        prefers = preferences_of(request)
        if is_lines(request):
            return await self._insert_lines(request, app, table, prefers)
        sender = await self._signed(request)
        body = await self._body(request, app, table, sender)

        def work(rows: Rows, exposed: Exposed, visible: Visible) -> Response:
            conflict = prefers.conflict(exposed)
            given = body.parsed()
            many = isinstance(given, list)
            if many and not 1 <= len(given) <= MOST_ROWS:
                raise invalid("body", f"must hold 1 to {MOST_ROWS} rows; more fit into a body of type {NDJSON}")
            place, given = (in_array, given) if many else (alone, [given])
            if prefers.minimal and (many or not rows.returns):
                rows.bulk(conflict, place).add(array_chunks(given))
                return Response(None, 201, prefers.applied)
            inserted = rows.insert(given, place, conflict)
            if prefers.minimal:
                return Response(None, 201, prefers.applied)
            return _inserted_response(inserted, many, exposed, visible, prefers)

        how = {"large": body.large, "quick": body.is_small_row}
        return await self._in_table(request, app, table, "write", work, write=True, grows=True, sender=sender, **how)

    async def _insert_lines(self, request: Request, app: str, table: str, prefers: WritePreferences) -> Response:
        """Insert the lines of a body, which waits in a file until it is whole: a slow sender holds no transaction."""
        sender = await self._signed(request)
        await self._in_table(request, app, table, "write", _nothing, read_whole=False, sender=sender)

        def work(rows: Rows, exposed: Exposed, visible: Visible) -> Response:
            conflict = prefers.conflict(exposed)
            if not prefers.representation:
                rows.bulk(conflict, in_line).add(line_chunks(path))
                return Response(None, 201, prefers.applied)
            answered: list[Tagged] = []
            for chunk in line_chunks(path):
                if len(answered) + len(chunk.rows) > MOST_ROWS:
                    raise invalid("Prefer", f"return=representation answers at most {MOST_ROWS} rows; leave it out")
                answered += rows.insert(chunk.rows, chunk.lines, conflict)
            return _inserted_response(answered, True, exposed, visible, prefers)

        async with self._loading(sender[0]), self._lines.body(request) as path:
            return await self._in_table(*(request, app, table, "write", work), write=True, grows=True, large=True, sender=sender)

    @asynccontextmanager
    async def _loading(self, engine: DataEngine) -> AsyncIterator[None]:
        """One of the places for NDJSON bodies of an engine. Raises Overloaded."""
        loads = self._loads.get(engine, 0)
        if loads >= MOST_LOADS:
            raise Overloaded(loads)
        self._loads[engine] = loads + 1
        try:
            yield
        finally:
            self._loads[engine] -= 1

    async def change(self, request: Request, app: str, table: str, key: str) -> Response:
        """Change the given columns of one row. `Prefer: return=minimal` asks for no body."""
        prefers = preferences_of(request)
        if prefers.merge:
            raise invalid("Prefer", f"resolution={MERGE} is for POST")
        sender = await self._signed(request)
        body = await self._body(request, app, table, sender)

        def work(rows: Rows, exposed: Exposed, visible: Visible) -> Response:
            changed = rows.change(key_of(request.scope, exposed), body.parsed(), request.headers.get("if-match"))
            if "read" not in visible.allowed(exposed):
                return Response(None, 204, prefers.applied if prefers.minimal else None)
            if prefers.minimal:
                return Response(None, 204, {"ETag": changed.tag, **prefers.applied})
            return _row_response(changed, prefers.applied)

        return await self._in_table(request, app, table, "write", work, write=True, grows=True, sender=sender)

    async def delete(self, request: Request, app: str, table: str, key: str) -> Response:
        """Delete one row."""

        def work(rows: Rows, exposed: Exposed, _: Visible) -> None:
            rows.delete(key_of(request.scope, exposed), request.headers.get("if-match"))

        await self._in_table(request, app, table, "write", work, write=True)
        return Response(None, 204)

    async def _body(self, request: Request, app: str, table: str, sender: Sender) -> _Body:
        """Read the body. It is parsed within the transaction, once the caller's rights are seen."""
        announced = request.headers.get("content-length", "")
        if not announced.isdecimal() or int(announced) > SMALL_BODY:
            # Who may not write does not get to send a large body.
            await self._in_table(request, app, table, "write", _nothing, read_whole=False, sender=sender)
        return _Body(await read_bytes(request, BODY_LIMIT))

    async def _in_table(
        self,
        request: Request,
        app: str,
        table: str,
        grant: Grant,
        work: Callable[[Rows, Exposed, Visible], T],
        *,
        write: bool = False,
        grows: bool = False,
        large: bool = False,
        read_whole: bool = True,
        quick: bool = False,
        sender: Sender | None = None,
    ) -> T:
        """Return the result of `work` on the rows, the table and what its caller may see. Raises 401 to 404, in this order.

        quick: one statement does it, for a small row. read_whole: the request's body has been read, so a client that leaves is
        noticed. sender: as `signed` gave it.
        """
        engine, caller = sender or await self._signed(request)

        def within(connection: sa.Connection | Replay, exposure: Exposure, roles: Mapping[str, str]) -> T:
            exposed = exposure.table(table)
            exposure.require(table, roles, grant)
            return work(Rows(connection, exposure, exposed), exposed, Visible(exposure, roles))

        if not read_whole:
            return await proven(caller, lambda known: engine.rows.run(app, known, within))

        def run(known: RowCaller) -> Coroutine[Any, Any, T]:
            if quick:
                return engine.rows.run_quick(app, known, within, write=write, grows=grows)
            return engine.rows.run(app, known, within, write=write, grows=grows, large=large)

        return await while_connected(request, proven(caller, run))

    async def _read_in(
        self,
        request: Request,
        app: str,
        table: str,
        work: Callable[[Reader, Exposed, Visible], T],
        *,
        short: bool,
        quick: bool,
        sender: Sender | None = None,
    ) -> T:
        """Return the result of `work`, as `_in_table`. short, quick: SQLite, or a server, may need no thread for it."""
        engine, caller = sender or await self._signed(request)

        def within(connection: Reading, exposure: Exposure, roles: Mapping[str, str]) -> T:
            exposed = exposure.table(table)
            exposure.require(table, roles, "read")
            return work(Reader(connection, exposed), exposed, Visible(exposure, roles))

        if short and engine.rows.reads_now:
            # Who sends it may have to be looked up in another way as well.
            with suppress(NotShort, Unproven):
                return engine.rows.run_now(app, table, caller, within)

        def run(known: RowCaller) -> Coroutine[Any, Any, T]:
            if quick:
                return engine.rows.run_quick(app, known, within)
            return engine.rows.run(app, known, within)

        return await while_connected(request, proven(caller, run))


def _nothing(*_: Any) -> None:
    """The work of a request whose rights alone are looked at."""


def _inserted_response(
    inserted: Sequence[Tagged], many: bool, exposed: Exposed, visible: Visible, prefers: WritePreferences
) -> Response:
    """The rows, or their keys alone for a caller who may not read them."""
    whole = "read" in visible.allowed(exposed)
    shown = [one.row if whole else {name: one.row[name] for name in exposed.key} for one in inserted]
    headers = prefers.applied if many else {"ETag": inserted[0].tag, **prefers.applied}
    return Response(orjson.dumps(shown if many else shown[0]), 201, headers, "application/json")


def _row_response(found: Tagged, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    return Response(orjson.dumps(found.row), 200, {"ETag": found.tag, **headers}, "application/json")
