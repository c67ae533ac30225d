"""Requests of clients at the api and at an engine of a real API server: each is answered as on a laptop."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.running import Kube, Platform, engines, object_, token
from tests.support.methods import check_methods, methods_of
from tests.support.patience import DEADLINE_S
from tests.support.pushing import SHOP, push

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
TABLES = """
  - name: visits
    primaryKey: [at]
    columns: [{name: at, type: datetime, default: now}, {name: n, type: integer}]
  - name: notes
    primaryKey: [k]
    columns: [{name: k, type: text}, {name: j, type: json}]
roles:
  editor: {items: [read, write], visits: [read, write], notes: [read, write]}
"""
DATA = "/api/v1/data/shop"
JSON = {"Content-Type": "application/json"}
PASSWORD = "correct horse"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


class Doors(NamedTuple):
    """The arguments of clients that are signed in: at the api as SUPERUSER, at an engine as an editor of its app."""

    api: dict[str, Any]
    engine: dict[str, Any]


@pytest.fixture
def doors(platform: Platform, kube: Kube, home: str, tmp_path: Path) -> Iterator[Doors]:
    with platform.leader():
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        sha256 = push(platform, kube, tmp_path, SHOP + TABLES.removeprefix("\n"))
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "ed", "namespace": home, "labels": {"tenantry.dev/credential": "identity"}},
            "stringData": {"password": PASSWORD},
        }
        signs_in = {
            "username": "ed",
            "passwordSecretRef": {"name": "ed", "key": "password"},
            "roles": [{"app": "shop", "role": "editor"}],
        }
        kube.apply(
            object_("Package", "asked-shop", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256),
            object_("Environment", "dev", home, region="home", deletionPolicy="Delete"),
            object_("App", "dev.shop", home, environment="dev", app="shop", version="1.0.0"),
            secret,
            object_("Identity", "ed", home, environment="dev", **signs_in),
        )
        kube.ready("app/dev.shop", home)
        kube.ready("identity/ed", home)
        (space,) = engines(kube, home)
        yield Doors(
            {"base_url": platform.api_url, "headers": _bearer(token(platform.api_url, kube))},
            {"base_url": f"http://engine.{space}.svc:8080", "proxy": platform.proxy},
        )
        kube("delete", "package", "asked-shop", "-n", NAMESPACE, "--wait=false")


def _bearer(signed: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {signed}"}


async def test_requests_are_answered_as_on_a_laptop(doors: Doors) -> None:
    async with _client(doors.api) as api, _client(doors.engine) as engine:
        signed_in = await engine.post("/api/v1/auth/token", data={"username": "ed", "password": PASSWORD})
        engine.headers.update(_bearer(signed_in.json()["access_token"]))
        await _methods_and_bodies(api, engine)
        named = await api.post("/api/v1/tenants", json={"name": "a\0b"})
        assert (named.status_code, "NUL" in named.text) == (400, True), named.text
        pushed = await api.put(f"/api/v1/packages/{'0' * 64}", content=POINTER)
        assert (pushed.status_code, "Git LFS" in pushed.text) == (400, True), pushed.text
        await _rows(engine)


def _client(door: dict[str, Any]) -> httpx.AsyncClient:
    return httpx.AsyncClient(**door, trust_env=False, timeout=DEADLINE_S)


async def _methods_and_bodies(api: httpx.AsyncClient, engine: httpx.AsyncClient) -> None:
    for client in (api, engine):

        async def request(method: str, path: str, client: httpx.AsyncClient = client) -> httpx.Response:
            return await client.request(method, path)

        described = await client.get("/openapi.json")
        assert described.status_code == 200, described.text
        await check_methods(request, methods_of(described.json()))
        path = f"{DATA}/notes" if client is engine else "/api/v1/tenants"
        refused = await client.post(path, content=gzip.compress(b"{}"), headers=JSON | {"Content-Encoding": "gzip"})
        assert (refused.status_code, "gzip" in refused.text) == (415, True), refused.text


async def _rows(engine: httpx.AsyncClient) -> None:
    visit = (await engine.post(f"{DATA}/visits", json={"n": 1})).json()
    row = f"{DATA}/visits/{visit['at']}"
    assert (await engine.get(row)).json() == visit
    assert (await engine.post(f"{DATA}/visits", json=visit)).status_code == 400, "the key exists"
    assert (await engine.patch(row, json={"n": 2})).status_code == 200
    assert (await engine.delete(row)).status_code == 204
    note: dict[str, Any] = {"k": "k0\nv", "j": {"id": 1}}
    assert (await engine.post(f"{DATA}/notes", json=note)).status_code == 201
    assert (await engine.get(f"{DATA}/notes/k0%0Av")).json() == note
    rounded = await engine.post(f"{DATA}/notes", content=b'{"k": "n", "j": {"id": 12345678901234567890123}}', headers=JSON)
    assert (rounded.status_code, "64 bits" in rounded.text) == (400, True), rounded.text
