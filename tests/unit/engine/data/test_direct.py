"""Requests that skip the framework: those of rows alone, with the same refusals."""

from __future__ import annotations

import httpx
import pytest
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenantry.engine.data.direct import CHANGES, LIST, ONE, DirectRows
from tenantry.model.measures import RequestMeasures
from tenantry.model.verdicts import NotFound
from tenantry.rest.routes import Route


async def endpoint(request: Request, app: str, table: str, key: str | None = None) -> Response:
    if table == "gone":
        raise NotFound("no such table")
    if table == "large":
        raise HTTPException(413, "too large")
    if table == "bug":
        raise KeyError(table)
    return Response(f"{app} {table} {key}")


async def changes(request: Request, app: str, table: str) -> Response:
    return Response(f"changes of {app} {table}")


async def ordinary(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("ordinary")(scope, receive, send)


ROUTES = [
    Route(method, path, endpoint, 200, None) for method, path in (("GET", LIST), ("POST", LIST), ("GET", ONE), ("DELETE", ONE))
]
ROUTES.append(Route("GET", CHANGES, changes, 200, None))
PATHS = {
    "GET /api/v1/data/crm/people": "crm people None",
    "POST /api/v1/data/crm/people": "crm people None",
    "GET /api/v1/data/crm/people/1": "crm people 1",
    "GET /api/v1/data/crm/people/a%2Fb,c": "crm people a/b,c",
    "GET /api/v1/data/crm/people/a/b": "crm people a/b",
    "GET /api/v1/data/crm/people/changes": "changes of crm people",
    "DELETE /api/v1/data/crm/people/changes": "crm people changes",
    "GET /api/v1/data/crm/people/changes/1": "crm people changes/1",
    "GET /api/v1/data/crm/people/": "ordinary",
    "GET /api/v1/data/crm": "ordinary",
    "GET /api/v1/data//people": "ordinary",
    "GET /api/v1/data/crm/openapi.json": "ordinary",
    "PUT /api/v1/data/crm/people": "ordinary",
    "POST /api/v1/data/crm/people/1": "ordinary",
    "GET /api/v1/database/crm/people": "ordinary",
    "GET /other/api/v1/data/crm/people": "ordinary",
}


def client() -> httpx.AsyncClient:
    transport = httpx.ASGITransport(DirectRows(ordinary, ROUTES, "/api/v1"))
    return httpx.AsyncClient(transport=transport, base_url="http://engine")


@pytest.mark.parametrize("request_", PATHS)
async def test_a_request_goes_its_way_by_its_path(request_: str) -> None:
    method, _, path = request_.partition(" ")
    async with client() as direct:
        assert (await direct.request(method, path)).text == PATHS[request_]


async def test_each_answer_is_counted_by_its_work_and_status() -> None:
    measures = RequestMeasures()
    transport = httpx.ASGITransport(DirectRows(ordinary, ROUTES, "/api/v1", measures), root_path="/e/acme/dev")
    async with httpx.AsyncClient(transport=transport, base_url="http://engine/e/acme/dev/api/v1/data/crm") as direct:
        for method, path in (("GET", "people"), ("POST", "people"), ("DELETE", "people/1"), ("GET", "people/changes")):
            await direct.request(method, path)
        await direct.get("gone")
    assert measures.answers == {("read", 200): 1, ("write", 200): 2, ("listen", 200): 1, ("read", 404): 1}


@pytest.mark.parametrize(("table", "status"), [("gone", 404), ("large", 413)])
async def test_a_refusal_is_answered_as_everywhere(table: str, status: int) -> None:
    async with client() as direct:
        answer = await direct.get(f"/api/v1/data/crm/{table}")
    assert (answer.status_code, list(answer.json())) == (status, ["error"])


async def test_a_bug_is_answered_and_logged() -> None:
    with structlog.testing.capture_logs() as logged:
        async with client() as direct:
            answer = await direct.get("/api/v1/data/crm/bug")
    assert (answer.status_code, list(answer.json())) == (500, ["error"])
    assert "KeyError" in logged[0]["traceback"]
