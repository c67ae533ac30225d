"""A store that refuses one write in passing: the request is answered 503 with Retry-After, and succeeds when it is repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.scenario.rest_world import BASE, PASSWORD, World, world_in
from tests.support.store_faults import Fault, FaultPoint, FaultyStore

WRITES = 4
"""More than any request here makes before it is answered."""
USER = {"username": "ann", "password": PASSWORD, "type": "SUPERUSER"}


def requests(ids: dict[str, str]) -> list[tuple[str, str, dict[str, Any] | None]]:
    """Method, path and body of each, in an order in which all succeed. ids: of what the earlier ones made."""
    tenant, environment, user = (ids.get(name, "") for name in ("tenants", "environments", "users"))
    admin = f"/engines/{environment}/api/v1/admin/identities"
    return [
        ("POST", "/tenants", {"name": "Acme", "slug": "acme"}),
        ("PUT", f"/tenants/{tenant}", {"name": "Acme Inc"}),
        ("POST", "/users", USER),
        ("PUT", f"/users/{user}", {"password": f"{PASSWORD} again"}),
        ("POST", f"/environments?tenantId={tenant}", {"name": "Dev", "slug": "dev", "region": "here"}),
        ("PUT", f"/environments/{environment}", {"name": "Development"}),
        ("POST", admin, {"username": "ben", "password": PASSWORD}),
        ("DELETE", f"{admin}/ben", None),
        ("DELETE", f"/users/{user}", None),
        ("DELETE", f"/environments/{environment}", None),
        ("DELETE", f"/tenants/{tenant}", None),
    ]


async def ids_of(world: World) -> dict[str, str]:
    """The id of the newest object of each collection that has one."""
    found: dict[str, str] = {}
    for name in ("tenants", "environments", "users"):
        answer = await world("root", "GET", f"/{name}")
        assert answer.status_code == 200, answer.text
        listed = [one for one in answer.json() if one["name"] != "root"]
        found |= {name: listed[-1]["id"]} if listed else {}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, WRITES))
async def test_a_write_that_is_refused_in_passing_may_be_repeated(tmp_path: Path, at: int) -> None:
    async with world_in(tmp_path) as world:
        point = FaultPoint(0, Fault.TOO_MANY)
        store = WritingStore(FaultyStore(world.platform.state.store, point), world.platform.state.cache)
        transport = httpx.ASGITransport(create_app(replace(world.platform.facade, store=store)), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
            faulty = replace(world, http=http)
            for number in range(len(requests({}))):
                await world.platform.converged()
                method, path, body = requests(await ids_of(world))[number]
                options: dict[str, Any] = {"headers": {"Idempotency-Key": f"request-{number}"}}
                options |= {} if body is None else {"json": body}
                point.writes, point.at = 0, at
                refused = await faulty("root", method, path, **options)
                point.at = 0
                if not refused.is_success:
                    assert (refused.status_code, refused.headers.get("Retry-After")) == (503, "1"), refused.text
                    repeated = await faulty("root", method, path, **options)
                    assert repeated.is_success or (method == "DELETE" and repeated.status_code == 404), repeated.text
