"""Every path answers HEAD as GET, OPTIONS by its methods, and names them all where it refuses one."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.rest_world import world_in
from tests.support.methods import check_methods, methods_of


async def test_every_path_of_an_engine(client: httpx.AsyncClient) -> None:
    await check_methods(client.request, methods_of((await client.get("/openapi.json")).json()))
    assert (await client.head("/healthz")).status_code == 200
    assert (await client.options("/nowhere")).status_code == 404


async def test_every_path_of_the_facade(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:

        async def request(method: str, path: str) -> httpx.Response:
            return await world("root", method, path.removeprefix("/api/v1"))

        await check_methods(request, methods_of((await world("root", "GET", "/openapi.json")).json()))


async def test_rows(tmp_path: Path) -> None:
    async with engine_with_app(tmp_path) as (_, served), signed_in(served, "ed") as editor:
        assert (await editor.post(f"{DATA}/accounts", json={"name": "a"})).status_code == 201
        for path in (f"{DATA}/accounts", f"{DATA}/accounts/1"):
            head, get = await editor.head(path), await editor.get(path)
            assert (head.status_code, head.content, head.headers.get("etag")) == (200, b"", get.headers.get("etag"))
        refused = await editor.put(f"{DATA}/accounts/1", json={})
        assert (refused.status_code, {"GET", "PATCH", "DELETE"} <= set(refused.headers["allow"].split(", "))) == (405, True)
