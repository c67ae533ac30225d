"""The routes of an engine behind the console's page of rows, on both databases: only the platform may ask, and they only list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tenantry.adapters.keys import KeyRing
from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.rest.uploads import Uploads
from tests.scenario.data_world import DATA, engine_with_app
from tests.scenario.postgres import database_url
from tests.scenario.serving import serving

ROWS = "/api/v1/admin/tenantry/rows/crm"
SEEDS = {"accounts": [{"id": number, "name": f"account {number}"} for number in range(1, 8)]}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def operator(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the operator's token, of an engine with rows."""
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    keys = KeyRing(tmp_path / "keys", "tenantry")
    token = keys.sign({"sub": "operator", "aud": "engine:e1"}, timedelta(minutes=5))
    async with engine_with_app(tmp_path, url, seeds=SEEDS) as (engine, _):
        served = Served(engine, tmp_path / "key.jwk", "e1", "http://facade", keys)
        app = engine_app(lambda _: served, Uploads(tmp_path / "incoming"))
        headers = {"Authorization": f"Bearer {token}"}
        async with serving(app) as base, httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as client:
            yield client


@pytest.mark.slow
async def test_the_platform_lists_tables_and_rows_page_by_page(operator: httpx.AsyncClient) -> None:
    tables = (await operator.get(ROWS)).json()["data"]
    assert [each["name"] for each in tables] == ["accounts", "contacts", "kinds"]
    assert tables[2]["key"] == ["region", "code"]
    seen, url = [], f"{ROWS}/accounts?limit=3"
    while url:
        page = await operator.get(url)
        assert page.status_code == 200, page.text
        seen += [row["id"] for row in page.json()]
        url = page.links.get("next", {}).get("url", "")
    assert seen == list(range(1, 8))
    filtered = await operator.get(f"{ROWS}/accounts?name=eq.account%203&select=id")
    assert filtered.json() == [{"id": 3}]
    assert (await operator.get(f"{ROWS}/nosuch")).status_code == 404


@pytest.mark.slow
async def test_they_change_nothing_and_the_data_api_still_refuses_the_platform(operator: httpx.AsyncClient) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await operator.request(method, f"{ROWS}/accounts", json={"name": "new"})).status_code == 405
        assert (await operator.request(method, f"{ROWS}/accounts/1", json={"name": "new"})).status_code in (404, 405)
    for method in ("GET", "POST"):
        refused = await operator.request(method, f"{DATA}/accounts", json={"name": "new"})
        assert (refused.status_code, "no access to the rows" in refused.text) == (403, True)


@pytest.mark.slow
@pytest.mark.parametrize("username", ["ed", "none", "admin"])
async def test_nobody_who_signs_in_to_the_engine_may_ask(operator: httpx.AsyncClient, username: str) -> None:
    auth = httpx.BasicAuth(username, "long enough")
    for path in (ROWS, f"{ROWS}/accounts"):
        assert (await operator.get(path, auth=auth)).status_code == 403
        async with httpx.AsyncClient(base_url=operator.base_url, timeout=30) as nobody:
            assert (await nobody.get(path)).status_code == 401


@pytest.mark.slow
async def test_only_the_platform_asks_for_how_long_nobody_used_the_engine(operator: httpx.AsyncClient) -> None:
    use = "/api/v1/admin/tenantry/use"
    admin = httpx.BasicAuth("admin", "long enough")
    assert (await operator.get(use, auth=admin)).status_code == 403
    assert (await operator.get("/api/v1/data/crm/accounts", auth=httpx.BasicAuth("ed", "long enough"))).status_code == 200
    first = (await operator.get(use)).json()["unused_s"]
    for _ in range(3):
        await operator.get("/api/v1/admin/tenantry/identities")
        await operator.get("/api/v1/admin/apps")
        await operator.get("/readyz")
    again = (await operator.get(use)).json()["unused_s"]
    assert 0 < first < again
