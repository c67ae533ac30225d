"""The answer to the request for a list: a page, or all rows in parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.query import LONGEST_QUERY, ListQuery, parse_query
from tenantry.engine.data.reading import counting
from tenantry.engine.data.reading.export import PART_BYTES, RowExport
from tenantry.engine.data.reading.formats import Format, format_of
from tenantry.engine.data.reading.pages import SHORT_LIMIT
from tenantry.engine.data.reading.reader import PAGE_BYTES, Reader, RowPage
from tenantry.engine.data.reading.selection import Visible
from tenantry.rest.bodies import invalid
from tenantry.rest.paging import next_link

Work = Callable[[Reader, Exposed, Visible], "ListedRows"]


SHORT_QUERY = 500
"""Characters of a query string that takes little time to parse."""
_SHORT = frozenset({"select", "limit"})
_LIMITED = re.compile(r"(?:^|&)limit=(?:[1-9][0-9]?|100)(?:&|$)", re.ASCII)


class InTable(Protocol):
    """Work in a transaction on the table of a request, with its rights checked. again: the request counts no second time."""

    async def __call__(self, work: Work, again: bool) -> ListedRows: ...


@dataclass(frozen=True)
class ListedRows:
    """A page, the query that it answers, and the number of all rows, None unless it was asked for."""

    page: RowPage
    query: ListQuery
    total: int | None


async def list_response(request: Request, in_table: InTable, enter: Callable[[], Callable[[], None]]) -> Response:
    """The answer. enter: takes a place for one that is sent in parts. Raises Halt."""
    form, counted = format_of(request.headers.get("accept", "")), counting.wants_count(request)

    def first(reader: Reader, exposed: Exposed, visible: Visible) -> ListedRows:
        query = parse_query(exposed, parameters(request), visible)
        total = reader.count(query) if counted else None
        return ListedRows(reader.page(query, form, _bytes_of(form, query)), query, total)

    found = await in_table(first, again=False)
    headers = {} if found.total is None else counting.headers(found.total)
    if not form.array:
        headers["Vary"] = "Accept"
    if form.array or found.query.paged or not found.page.after:
        link = next_link(request, found.page.after) if found.page.after else {}
        return Response(found.page.body, 200, {**headers, **link}, form.media_type)

    async def following(after: str) -> RowPage:
        def more(reader: Reader, exposed: Exposed, visible: Visible) -> ListedRows:
            query = replace(parse_query(exposed, parameters(request), visible), after=after)
            return ListedRows(reader.page(query, form, PART_BYTES), query, None)

        return (await in_table(more, again=True)).page

    return RowExport(request, found.page, form, headers, following, enter())


def is_short(request: Request) -> bool:
    """Return True if the list `may_be_short`."""
    given = request.query_params
    limit = given.get("limit", "")
    return (
        len(request.url.query) <= SHORT_QUERY
        and _SHORT.issuperset(given)
        and "(" not in given.get("select", "")
        and limit.isascii()
        and limit.isdecimal()
        and len(limit) <= len(str(SHORT_LIMIT))
        and int(limit) <= SHORT_LIMIT
        and "prefer" not in request.headers
    )


def is_quick(request: Request) -> bool:
    """Return True if a server may answer the list with few rows, found in any way."""
    asked = request.url.query
    return len(asked) <= SHORT_QUERY and "prefer" not in request.headers and _LIMITED.search(asked) is not None


def parameters(request: Request) -> list[tuple[str, str]]:
    """The parameters of the query string. Raises Invalid."""
    if len(request.url.query) > LONGEST_QUERY:
        raise invalid("query", f"is longer than {LONGEST_QUERY} characters")
    return request.query_params.multi_items()


def _bytes_of(form: Format, query: ListQuery) -> int:
    return PAGE_BYTES if form.array or query.paged else PART_BYTES
