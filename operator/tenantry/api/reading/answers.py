"""Answers from prepared bytes: lists, single objects, and what follows a write."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.reading.body_cache import BodyCache, CachedList, Row, Scope, joined
from tenantry.model.redeclaring import Proposed
from tenantry.rest.bodies import header_of, json_response, names_tag
from tenantry.rest.paging import page_of

_JSON = (b"content-type", b"application/json")
_VARY = (b"vary", b"authorization")
_PRIVATE = (b"cache-control", b"private, no-cache")


class Prepared(Response):
    """Bytes that are ready to send, with few headers."""

    def __init__(self, body: bytes, etag: str, status: int = 200) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        headers = [_PRIVATE, _VARY, (b"etag", etag.encode())]
        if status != 304:
            headers += [_JSON, (b"content-length", str(len(body)).encode())]
        self.raw_headers = headers


def list_answer(request: Request, body_cache: BodyCache, scope: Scope) -> Response:
    """The list of a scope, or the page of it that is asked for. Raises Invalid."""
    return listing_answer(request, body_cache.listing(scope), newest_first=body_cache.newest_first)


def listing_answer(request: Request, listing: CachedList, *, newest_first: bool = False) -> Response:
    """A prepared list; see list_answer."""
    if request.scope["query_string"]:
        query = request.query_params
        if "limit" in query or "continue" in query:
            return _page_answer(request, listing, newest_first)
    return _tagged(request, listing.whole, listing.etag)


def row_answer(request: Request, row: Row) -> Response:
    """One object."""
    return _tagged(request, row.body, row.etag)


def _page_answer(request: Request, listing: CachedList, newest_first: bool) -> Response:
    page = page_of(request, listing.rows, lambda row: row.key, newest_first)
    answer = _tagged(request, joined(page.items), f'"{listing.etag[1:-1]}-{len(page.items)}"')
    for name, value in page.link.items():
        answer.headers[name] = value
    return answer


def _tagged(request: Request, body: bytes, etag: str) -> Response:
    if names_tag(header_of(request, b"if-none-match"), etag):
        return Prepared(b"", etag, 304)
    return Prepared(body, etag)


def row_written(row: Row, headers: Mapping[str, str], status: int = 200) -> Response:
    """The object as it was just written. headers: Versions.headers of the write."""
    return Response(row.body, status, {**headers, "ETag": row.etag}, "application/json")


def queued(headers: Mapping[str, str], operation: str, message: str, environment: bytes = b"") -> Response:
    """202: an Operation is queued. environment: the prepared body of one that was made."""
    body = orjson.dumps({"message": message, "operation_id": operation})
    if environment:
        body = b'{"environment":' + environment + b"," + body[1:]
    return Response(body, 202, {**headers, "Location": f"/api/v1/operations/{operation}"}, "application/json")


async def _proposed(request: Request, error: Exception) -> Response:
    assert isinstance(error, Proposed)
    committed = error.committed
    return json_response({"message": str(error), "branch": committed.branch, "commit": committed.commit}, 202)


def answer_proposals(app: Starlette) -> None:
    """Answers 202 for a write that waits for review: nothing is changed yet."""
    app.add_exception_handler(Proposed, _proposed)
