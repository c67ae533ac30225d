"""The address of users shows no metric: each path of the route table, and each where a scraper looks, by who may not read one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.routing import Route

from tenantry.api.app import create_app
from tenantry.console.app import add_console
from tests.scenario.rest_world import BASE, World, numbers, world_in
from tests.support.endpoints import ids_of

SOUGHT = ("/metrics", "/metrics/", "//metrics", "/METRICS", "/api/v1/metrics", "/docs/metrics", "/console/metrics", "/federate")
EXPOSED = "# TYPE "
"""Begins the line of each metric, in all forms that Prometheus reads."""


def paths(world: World, ids: dict[str, str]) -> set[str]:
    """Return the paths of all routes that answer GET, with ids of what is there, and below each of the engines' addresses."""
    app = create_app(world.platform.facade, partial(add_console, codes=world.platform.codes))
    found = {route.path for route in app.routes if isinstance(route, Route) and "GET" in (route.methods or ())}
    assert "/api/v1/tenants" in found
    named = {each.replace("{environmentId}", ids["environments"]) for each in found}
    environment = ids["environments"]
    return named | {f"{base}{path}" for base in ("", "/e/acme/dev", f"/engines/{environment}") for path in SOUGHT}


@pytest.mark.slow
@pytest.mark.parametrize("user", ["", "acme-viewer", "acme-admin"])
async def test_no_path_shows_a_metric(user: str, tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        ids = await ids_of(world, "acme")
        assert EXPOSED in numbers(world)
        headers = {"Authorization": f"Bearer {await world.token(user)}"} if user else {}
        transport = httpx.ASGITransport(world.platform.http, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as client:
            for path in sorted(paths(world, ids)):
                answer = await client.get(path, headers=headers)
                assert EXPOSED not in answer.text, path
                assert answer.headers.get("Content-Type") != CONTENT_TYPE_LATEST, path
            assert (await client.get("/metrics", headers=headers)).status_code == 404
