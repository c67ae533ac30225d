"""/data: rows of the installed apps' tables, for whoever is signed in, within the role that is granted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

import orjson
import sqlalchemy as sa
from pydantic import RootModel
from starlette.requests import Request
from starlette.responses import Response

from tenantry.engine.data.describe import described
from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.query import LONGEST_QUERY, ListQuery, parse_query, parse_select
from tenantry.engine.data.rows import MOST_ROWS, RowPage, Rows, Tagged
from tenantry.engine.packages.manifest import Grant
from tenantry.rest.bodies import invalid, load_json, names_tag, read_bytes
from tenantry.rest.engine_routes import Row
from tenantry.rest.leaving import while_connected
from tenantry.rest.paging import next_link

BODY_LIMIT = 8 << 20
MOST_CONTAINERS = 200_000
"""Arrays and objects of a body, counted before it is parsed: 8 MiB of empty ones would take 2 GiB."""
T = TypeVar("T")
Work = Callable[[sa.Connection, Exposure], T]


class OneRow(RootModel[dict[str, Any]]):
    """A row by its columns; the app's own openapi.json tells which."""


class ManyRows(RootModel[list[dict[str, Any]]]):
    """Rows."""


class OneOrManyRows(RootModel[dict[str, Any] | list[dict[str, Any]]]):
    """A row, or rows."""


class DataEngine(Protocol):
    """What the data API asks of an engine."""

    def data(self, app: str, work: Work[T], *, write: bool = False) -> Coroutine[Any, Any, T]:
        """What `work` returns, in one transaction over the installed version of the app. Raises NotFound when none is."""


class Caller(Protocol):
    """Who sends a request. roles: by app."""

    @property
    def roles(self) -> Mapping[str, str]: ...


Signed = Callable[[Request], Awaitable[tuple[DataEngine, Caller]]]
"""The engine and who sends the request. Raises Unauthorized, Forbidden."""


def data_rows(signed: Signed) -> list[Row]:
    """Every route of the data API, without the prefix /api/v1."""
    routes = _DataRoutes(signed)
    return [
        Row("GET", "/data/{app}/openapi.json", routes.describe, OneRow),
        Row("GET", "/data/{app}/{table}", routes.list_rows, ManyRows),
        Row("POST", "/data/{app}/{table}", routes.insert, OneOrManyRows, OneOrManyRows, 201),
        Row("GET", "/data/{app}/{table}/{key:path}", routes.read, OneRow),
        Row("PATCH", "/data/{app}/{table}/{key:path}", routes.change, OneRow, OneRow),
        Row("DELETE", "/data/{app}/{table}/{key:path}", routes.delete, status=204),
    ]


class _DataRoutes:
    def __init__(self, signed: Signed) -> None:
        self._signed = signed

    async def describe(self, request: Request, app: str) -> Response:
        """Describe the tables of an installed app, as OpenAPI, as far as the caller may use them."""
        engine, caller = await self._signed(request)
        base = request.url.path.removesuffix("/openapi.json")
        body = await while_connected(request, engine.data(app, lambda _, exposure: described(exposure, caller.roles, base)))
        return Response(orjson.dumps(body), media_type="application/json")

    async def list_rows(self, request: Request, app: str, table: str) -> Response:
        """List rows: filters in PostgREST's syntax, select, order, limit, continue."""
        queries: list[ListQuery] = []

        def work(rows: Rows, exposed: Exposed, _: frozenset[Grant]) -> RowPage:
            queries.append(parse_query(exposed, _parameters(request)))
            return rows.page(queries[0])

        page = await self._in_table(request, app, table, "read", work)
        link = next_link(request, page.after) if page.after else {}
        return Response(page.json, 200, link, "application/json")

    async def read(self, request: Request, app: str, table: str, key: str) -> Response:
        """Read one row by its primary key."""

        def work(rows: Rows, exposed: Exposed, _: frozenset[Grant]) -> Tagged:
            select = parse_select(exposed, request.query_params.get("select", "*"))
            return rows.read(_key(request, exposed), select)

        found = await self._in_table(request, app, table, "read", work)
        if names_tag(request.headers.get("if-none-match"), found.tag):
            return Response(None, 304, {"ETag": found.tag})
        return _row_response(found)

    async def insert(self, request: Request, app: str, table: str) -> Response:
        """Insert one row, or many in one transaction."""

        # Who may not write does not get to send a body.
        await self._in_table(request, app, table, "write", lambda *_: None, read_whole=False)
        given = _parsed(await read_bytes(request, BODY_LIMIT))
        many = isinstance(given, list)
        if many and not 1 <= len(given) <= MOST_ROWS:
            raise invalid("body", f"must hold 1 to {MOST_ROWS} rows")

        def work(rows: Rows, exposed: Exposed, allowed: frozenset[Grant]) -> Response:
            inserted = rows.insert(given if many else [given], many)
            shown = [one.row if "read" in allowed else {name: one.row[name] for name in exposed.key} for one in inserted]
            headers = {} if many else {"ETag": inserted[0].tag}
            return Response(orjson.dumps(shown if many else shown[0]), 201, headers, "application/json")

        return await self._in_table(request, app, table, "write", work, write=True)

    async def change(self, request: Request, app: str, table: str, key: str) -> Response:
        """Change the given columns of one row."""
        await self._in_table(request, app, table, "write", lambda *_: None, read_whole=False)
        given = _parsed(await read_bytes(request, BODY_LIMIT))

        def work(rows: Rows, exposed: Exposed, allowed: frozenset[Grant]) -> Response:
            changed = rows.change(_key(request, exposed), given, request.headers.get("if-match"))
            return _row_response(changed) if "read" in allowed else Response(None, 204)

        return await self._in_table(request, app, table, "write", work, write=True)

    async def delete(self, request: Request, app: str, table: str, key: str) -> Response:
        """Delete one row."""

        def work(rows: Rows, exposed: Exposed, _: frozenset[Grant]) -> None:
            rows.delete(_key(request, exposed), request.headers.get("if-match"))

        await self._in_table(request, app, table, "write", work, write=True)
        return Response(None, 204)

    async def _in_table(
        self,
        request: Request,
        app: str,
        table: str,
        grant: Grant,
        work: Callable[[Rows, Exposed, frozenset[Grant]], T],
        *,
        write: bool = False,
        read_whole: bool = True,
    ) -> T:
        """What `work` returns, given the rows, the table and what the caller may do with it. Raises 401 to 404, in this order.

        read_whole: the request's body is not to be read any more, so that a client that leaves is noticed.
        """
        engine, caller = await self._signed(request)

        def within(connection: sa.Connection, exposure: Exposure) -> T:
            exposed = exposure.table(table)
            allowed = exposure.require(table, caller.roles, grant)
            return work(Rows(connection, exposure, exposed), exposed, allowed)

        return (
            await while_connected(request, engine.data(app, within, write=write))
            if read_whole
            else await engine.data(app, within)
        )


def _parameters(request: Request) -> list[tuple[str, str]]:
    if len(request.url.query) > LONGEST_QUERY:
        raise invalid("query", f"is longer than {LONGEST_QUERY} characters")
    return request.query_params.multi_items()


def _key(request: Request, exposed: Exposed) -> list[str]:
    """The parts of the key, from the path as it was sent: only there a comma of a value differs from one between parts."""
    raw: bytes = request.scope["raw_path"].partition(b"?")[0].rpartition(b"/")[2]
    parts = raw.split(b",") if len(exposed.key) > 1 else [raw]
    try:
        return [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        raise invalid("key", "is not UTF-8") from None


def _parsed(raw: bytes) -> Any:
    if raw.count(b"[") + raw.count(b"{") > MOST_CONTAINERS:
        raise invalid("body", f"holds more than {MOST_CONTAINERS} arrays and objects")
    return load_json(raw)


def _row_response(found: Tagged) -> Response:
    return Response(orjson.dumps(found.row), 200, {"ETag": found.tag}, "application/json")
