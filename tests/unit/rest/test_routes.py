"""One table of routes serves both interfaces: endpoints that read the request themselves, and those that FastAPI reads for."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tenantry.rest.apps.described import add_routes
from tenantry.rest.routes import FILE, ROLE, Route


async def lean(request: Request) -> Response:
    return PlainTextResponse(f"lean {request.path_params['id']}")


async def parsed(request: Request, id: str, often: int = 1) -> Response:
    return PlainTextResponse(f"parsed {id} {often + 1}")


def application() -> FastAPI:
    app = FastAPI()
    routes = [
        Route("GET", "/lean/{id}", lean, 200, FILE, (404,), ("limit",), ("If-Match",), role="ADMIN"),
        Route("GET", "/parsed/{id}", parsed, 200, None),
    ]
    add_routes(app, routes, "things", "/api", errors=(401,))
    return app


@pytest.mark.parametrize(("path", "answer"), [("/api/lean/a", "lean a"), ("/api/parsed/a?often=2", "parsed a 3")])
async def test_an_endpoint_gets_what_its_signature_names(path: str, answer: str) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application()), base_url="http://test") as client:
        assert (await client.get(path)).text == answer


def described(path: str) -> dict[str, Any]:
    found: dict[str, Any] = application().openapi()["paths"][path]["get"]
    return found


@pytest.mark.parametrize(
    ("path", "names"), [("/api/lean/{id}", ["id", "limit", "If-Match"]), ("/api/parsed/{id}", ["id", "often"])]
)
def test_each_parameter_is_described_once(path: str, names: list[str]) -> None:
    assert [each["name"] for each in described(path)["parameters"]] == names


def test_a_route_describes_its_answers_and_its_role() -> None:
    lean = described("/api/lean/{id}")
    assert {*lean["responses"]} >= {"200", "401", "404"}
    assert {*lean["responses"]["200"]["content"]} >= {*FILE["content"]}
    assert lean[ROLE] == "ADMIN"
    assert lean["tags"] == ["things"]


def test_a_refusal_is_described_by_reference() -> None:
    """A model for each status of each route took two thirds of the time in which a platform opens."""
    routes = [each for each in application().routes if isinstance(each, APIRoute)]

    assert {*routes[0].responses} >= {401, 404, 429, 503}
    assert [route.response_fields for route in routes] == [{}, {}]
