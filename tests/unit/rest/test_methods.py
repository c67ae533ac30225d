"""Every path answers HEAD as GET, OPTIONS by its methods, and names them all where it refuses one."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx

from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.rest_world import world_in

PLACES = re.compile(r"\{\w+(:\w+)?\}")
SAFE = {"HEAD", "OPTIONS"}


def methods_of(document: Any) -> dict[str, set[str]]:
    """The methods of each path, with ids that do not exist."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, operations in document["paths"].items():
        found[PLACES.sub("00000000-0000-4000-8000-000000000000", path)] |= {
            method.upper() for method in operations if method in ("get", "put", "post", "patch", "delete")
        }
    return found


async def check(request: Any, paths: dict[str, set[str]]) -> None:
    assert len(paths) >= 10
    for path, methods in paths.items():
        asked = await request("OPTIONS", path)
        known = set(asked.headers.get("allow", "").split(", "))
        assert (asked.status_code, methods <= known) == (204, True), (path, asked.text)
        for refused in {"GET", "PUT", "POST", "PATCH", "DELETE"} - known:
            answer = await request(refused, path)
            assert (answer.status_code, set(answer.headers.get("allow", "").split(", "))) == (405, known), (refused, path)
            assert answer.json()["error"], (refused, path)
        if "GET" in methods:
            async with asyncio.timeout(60):
                head, get = await request("HEAD", path), await request("GET", path)
            assert (head.status_code, head.content) == (get.status_code, b""), path
            assert head.headers.get("content-type") == get.headers.get("content-type"), path
            assert "HEAD" in known, path


async def test_every_path_of_an_engine(client: httpx.AsyncClient) -> None:
    await check(client.request, methods_of((await client.get("/openapi.json")).json()))
    assert (await client.head("/healthz")).status_code == 200
    assert (await client.options("/nowhere")).status_code == 404


async def test_every_path_of_the_facade(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:

        async def request(method: str, path: str) -> httpx.Response:
            return await world("root", method, path.removeprefix("/api/v1"))  # type: ignore[no-any-return]

        await check(request, methods_of((await world("root", "GET", "/openapi.json")).json()))


async def test_rows(tmp_path: Path) -> None:
    async with engine_with_app(tmp_path) as (_, served), signed_in(served, "ed") as editor:
        assert (await editor.post(f"{DATA}/accounts", json={"name": "a"})).status_code == 201
        for path in (f"{DATA}/accounts", f"{DATA}/accounts/1"):
            head, get = await editor.head(path), await editor.get(path)
            assert (head.status_code, head.content, head.headers.get("etag")) == (200, b"", get.headers.get("etag"))
        refused = await editor.put(f"{DATA}/accounts/1", json={})
        assert (refused.status_code, {"GET", "PATCH", "DELETE"} <= set(refused.headers["allow"].split(", "))) == (405, True)
