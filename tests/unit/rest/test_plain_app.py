"""Engines and the facade answer without FastAPI what FastAPI would answer, and FastAPI describes it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tenantry.model.verdicts import NotFound
from tenantry.rest.apps.described import described
from tenantry.rest.apps.plain import PlainApp
from tenantry.rest.routes import Route, RouteTable


async def lean(request: Request) -> Response:
    return PlainTextResponse(f"lean {request.path_params['id']}")


async def parsed(request: Request, id: str, often: bool = False) -> Response:
    if id == "gone":
        raise NotFound("it is gone")
    return PlainTextResponse(f"parsed {id} {often}")


ROUTES = (Route("GET", "/lean/{id}", lean, 200, None), Route("PUT", "/parsed/{id:path}", parsed, 200, None))
TABLES = (RouteTable(ROUTES, "things", "/api"), RouteTable(ROUTES[1:], "outer", "/of/{environmentId}"))
PLAIN = PlainApp("Things", TABLES, lambda inner: inner)
APPS = {"plain": PLAIN, "FastAPI": described("Things", TABLES)}


@pytest.fixture(params=APPS)
async def client(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(APPS[request.param])
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        pytest.param("GET", "/api/lean/a%20b", 200, "lean a b", id="lean"),
        pytest.param("PUT", "/api/parsed/a/b", 200, "parsed a/b False", id="default"),
        pytest.param("PUT", "/of/x/parsed/a", 200, "parsed a False", id="unnamed"),
        pytest.param("PUT", "/api/parsed/a?often=1&often=Yes", 200, "parsed a True", id="flag"),
        pytest.param("PUT", "/api/parsed/a?often=off", 200, "parsed a False", id="flag-off"),
        pytest.param("PUT", "/api/parsed/a?often=perhaps", 400, "often: must be true or false", id="no-flag"),
        pytest.param("PUT", "/api/parsed/gone", 404, "it is gone", id="halt"),
        pytest.param("HEAD", "/api/lean/a", 200, "", id="head"),
        pytest.param("POST", "/api/lean/a", 405, "method POST is not allowed", id="method"),
        pytest.param("GET", "/api/lean/a/", 404, "no such path", id="slash"),
        pytest.param("GET", "/docs/apis", 404, "no such path", id="below-docs"),
        pytest.param("POST", "/docs/api/", 405, "method POST is not allowed", id="docs"),
    ],
)
async def test_both_answer_alike(client: httpx.AsyncClient, method: str, path: str, status: int, said: str) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, said in answer.text) == (status, True)


async def test_the_description_is_that_of_fastapi() -> None:
    found = []
    for app in APPS.values():
        transport = httpx.ASGITransport(app, root_path="/engines/acme/dev")
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            found.append((await client.get("/engines/acme/dev/openapi.json")).json())
            assert "/api/lean/{id}" in (await client.get("/engines/acme/dev/docs/api/")).text
    assert found[0] == found[1]
    assert found[0]["servers"] == [{"url": "/engines/acme/dev"}]
    assert {*found[0]["paths"]} == {"/api/lean/{id}", "/api/parsed/{id}", "/of/{environmentId}/parsed/{id}"}
