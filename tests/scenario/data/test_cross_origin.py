"""CORS: every route answers the preflight of a listed origin, and gives no other origin a permission."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.processes.serving import serving
from tenantry.rest.cross_origin import EXPOSED, CrossOrigin
from tenantry.settings import HttpSettings
from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.rest_world import BASE, World, world_in

LISTED, OTHER = "https://app.example.com", "https://evil.example.com"
PERMISSION = "access-control-allow-origin"


async def paths_of(world: World) -> list[tuple[str, str]]:
    """Method and path of every route of the facade and of an engine."""
    await world.tenant("acme")
    await world.environment("acme", "dev")
    platform = (await world("", "GET", "/openapi.json")).raise_for_status().json()
    async with client(world) as http:
        engine = (await http.get("/e/acme/dev/openapi.json")).raise_for_status().json()
    return [*_routes(platform, ""), *_routes(engine, "/e/acme/dev")]


def _routes(schema: dict[str, Any], below: str) -> Iterator[tuple[str, str]]:
    for path, operations in schema["paths"].items():
        for method in operations:
            yield method.upper(), below + path.replace("{", "").replace("}", "")


def client(world: World, origins: tuple[str, ...] = (LISTED,)) -> httpx.AsyncClient:
    app = CrossOrigin(world.platform.http, origins)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE)


def asking(origin: str, method: str) -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization,content-type,if-match,prefer",
    }


@pytest.mark.slow
async def test_every_route_answers_the_preflight_of_a_listed_origin_and_of_no_other(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world, client(world) as browser:
        routes = await paths_of(world)
        wrong = {}
        for method, path in routes:
            listed = await browser.options(path, headers=asking(LISTED, method))
            other = await browser.options(path, headers=asking(OTHER, method))
            permitted = (
                listed.status_code == 200
                and listed.headers[PERMISSION] == LISTED
                and method in listed.headers["access-control-allow-methods"].split(", ")
                and listed.headers["access-control-allow-headers"] == "authorization,content-type,if-match,prefer"
            )
            refused = not any(name.startswith("access-control-") for name in other.headers)
            vary = all(answer.headers["vary"].lower().split(", ").count("origin") == 1 for answer in (listed, other))
            if not (permitted and refused and vary):
                wrong[method, path] = (listed.headers, other.headers)
        assert wrong == {}
        assert len(routes) > 70


async def test_a_page_reads_an_answer_its_headers_and_its_refusal(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world, client(world) as browser:
        await world.tenant("acme")
        token = {"Authorization": f"Bearer {await world.token('acme-admin')}"}
        for headers in (token, {}):
            answer = await browser.get("/api/v1/environments", headers={"Origin": LISTED, **headers})
            assert answer.status_code == (200 if headers else 401)
            assert answer.headers[PERMISSION] == LISTED
            assert {"ETag", "Location", "Retry-After", "Link"} <= set(answer.headers["access-control-expose-headers"].split(", "))
            assert "access-control-allow-credentials" not in answer.headers
            assert "Origin" in answer.headers["vary"].split(", ")


async def test_a_page_reads_every_header_that_the_description_of_rows_names(tmp_path: Path) -> None:
    async with engine_with_app(tmp_path) as (_, url), signed_in(url, "ed") as editor:
        schema = (await editor.get(f"{DATA}/openapi.json")).raise_for_status().json()
    operations = [one for each in schema["paths"].values() for method, one in each.items() if method != "parameters"]
    named = {name for one in operations for answer in one["responses"].values() for name in answer.get("headers", ())}
    assert {"Link", "Tenantry-Count"} <= named <= set(EXPOSED)


async def test_an_answer_to_anybody_else_gives_no_permission_and_is_no_listed_origins_in_a_cache(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world, client(world) as browser:
        for headers in ({}, {"Origin": OTHER}, {"Origin": "null"}, {"Origin": f"{LISTED}.evil.example.com"}):
            answer = await browser.get("/healthz", headers=headers)
            assert answer.status_code == 200
            assert PERMISSION not in answer.headers
            assert answer.headers["vary"] == "Origin"


async def test_a_server_permits_the_origins_of_its_settings_and_none_by_default(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        for http, permitted in ((HttpSettings(origins=f"{LISTED}, http://localhost:5173"), LISTED), (HttpSettings(), None)):
            bound = listening("127.0.0.1", 0)
            async with serving(world.platform.http, bound, http), httpx.AsyncClient(base_url=url_of(bound)) as browser:
                answer = await browser.get("/healthz", headers={"Origin": LISTED})
                assert answer.headers.get(PERMISSION) == permitted
                assert ("vary" in answer.headers) == (permitted is not None)
