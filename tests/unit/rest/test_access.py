"""Sign-in at an engine, and who may do what there."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import cast

import httpx
import pytest

from tenantry.adapters.keys import KeyRing
from tenantry.engine.access import Served, ServedEngine
from tenantry.engine.server import engine_app
from tenantry.model.facts import Password
from tenantry.rest.uploads import Uploads
from tests.unit.rest.engine_double import EngineDouble

APPS = "/api/v1/admin/apps"
FACADE = "http://platform/engines/e1/api/v1"
# A header whose nesting exhausts a recursive parser.
DEEP = base64.urlsafe_b64encode(b'{"a":' + b"[" * 3000).decode().rstrip("=")


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / "keys", "tenantry")


@pytest.fixture
async def managed(double: EngineDouble, ring: KeyRing, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    served = Served(cast(ServedEngine, double), tmp_path / "token.jwk", "e1", FACADE, ring)
    app = engine_app(lambda request: served, Uploads(tmp_path / "incoming"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://engine") as client:
        yield client


async def token(client: httpx.AsyncClient, username: str, password: str) -> str:
    form = {"username": username, "password": password}
    answer = await client.request("POST", "/api/v1/auth/token", data=form, auth=None)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


async def test_a_password_gives_a_token_that_signs_in(managed: httpx.AsyncClient) -> None:
    issued = await token(managed, "admin", "admin-password")
    me = await managed.get("/api/v1/auth/me", headers=bearer(issued))
    assert me.json() == {"sub": "id-0", "username": "admin", "role": "ADMIN"}


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        pytest.param({"username": "admin", "password": "wrong"}, 401, "wrong username or password", id="wrong password"),
        pytest.param({"username": "admin"}, 400, "password: is required", id="no password"),
        pytest.param({"grant_type": "magic", "username": "a", "password": "b"}, 400, "grant_type: must be password", id="grant"),
    ],
)
async def test_a_bad_token_request(managed: httpx.AsyncClient, form: dict[str, str], status: int, error: str) -> None:
    answer = await managed.post("/api/v1/auth/token", data=form)
    assert (answer.status_code, answer.json()) == (status, {"error": error})


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer x",
        "Bearer a.b.c",
        "Basic !",
        "Basic YWRtaW4=",
        "Digest x",
        "Bearer " + "x" * 9000,
        f"Bearer {DEEP}.e30.AA",
    ],
)
async def test_bad_credentials_are_401_with_a_challenge(managed: httpx.AsyncClient, header: str) -> None:
    answer = await managed.get(APPS, headers={"Authorization": header} if header else {})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert set(answer.json()) == {"error"}


async def test_a_token_ends_with_its_password_and_with_its_identity(managed: httpx.AsyncClient, double: EngineDouble) -> None:
    await double.add_identity("ada", Password(clear="ada-password"))
    issued = bearer(await token(managed, "ada", "ada-password"))
    assert (await managed.get("/api/v1/auth/me", headers=issued)).status_code == 200
    await double.set_password("ada", Password(clear="another one"))
    assert (await managed.get("/api/v1/auth/me", headers=issued)).status_code == 401
    await double.delete_identity("ada")
    assert (await managed.get("/api/v1/auth/me", headers=issued)).status_code == 401


async def test_only_admin_administers(managed: httpx.AsyncClient, double: EngineDouble) -> None:
    await double.add_identity("ada", Password(clear="ada-password"))
    answer = await managed.get(APPS, auth=("ada", "ada-password"))
    assert (answer.status_code, answer.json()) == (403, {"error": "ada does not administer this engine; admin does"})


async def test_a_managed_engine_is_read_by_admin_and_changed_by_the_operator(managed: httpx.AsyncClient, ring: KeyRing) -> None:
    admin = ("admin", "admin-password")
    operator = bearer(ring.sign({"sub": "operator", "aud": "engine:e1"}, timedelta(minutes=5)))
    body = {"username": "ada", "password": "long enough"}
    assert (await managed.get(APPS, auth=admin)).status_code == 200
    refused = await managed.post("/api/v1/admin/identities", json=body, auth=admin)
    assert (refused.status_code, refused.json()["error"]) == (400, f"this engine is managed; make the change at {FACADE}")
    assert (await managed.get("/api/v1/admin/tenantry/identities", auth=admin)).status_code == 403
    assert (await managed.post("/api/v1/admin/tenantry/identities", json=body, headers=operator)).status_code == 200


@pytest.mark.parametrize(
    ("claims", "ttl"),
    [
        pytest.param({"sub": "operator", "aud": "engine:e2"}, 300, id="another engine's"),
        pytest.param({"sub": "operator", "aud": "tenantry"}, 300, id="the facade's"),
        pytest.param({"sub": "operator"}, 300, id="nobody's"),
        pytest.param({"aud": "engine:e1"}, 300, id="without a subject"),
        pytest.param({"sub": "operator", "aud": "engine:e1"}, -60, id="expired"),
    ],
)
async def test_a_platform_token_for_something_else_is_401(
    managed: httpx.AsyncClient, ring: KeyRing, claims: dict[str, str], ttl: int
) -> None:
    answer = await managed.get(APPS, headers=bearer(ring.sign(claims, timedelta(seconds=ttl))))
    assert answer.status_code == 401


async def test_a_token_of_another_platform_is_401(managed: httpx.AsyncClient, tmp_path: Path) -> None:
    other = KeyRing(tmp_path / "other", "tenantry")
    answer = await managed.get(APPS, headers=bearer(other.sign({"sub": "operator", "aud": "engine:e1"}, timedelta(minutes=5))))
    assert answer.status_code == 401


async def test_cookies_do_not_sign_in(managed: httpx.AsyncClient) -> None:
    issued = await token(managed, "admin", "admin-password")
    answer = await managed.get(APPS, headers={"Cookie": f"token={issued}; session={issued}"})
    assert answer.status_code == 401


@pytest.mark.parametrize("path", ["%2e%2e%2ftoken.jwk", "..%2ftoken.jwk", "link", "x\x00y", "absent", "a" * 5000])
async def test_content_never_leads_out_of_its_folder(client: httpx.AsyncClient, tmp_path: Path, path: str) -> None:
    (tmp_path / "token.jwk").write_text("secret")
    (tmp_path / "content" / "link").symlink_to(tmp_path / "token.jwk")
    answer = await client.get(httpx.URL("http://engine", raw_path=f"/apps/shop/{path}".replace("\x00", "%00").encode()))
    assert answer.status_code == 404
    assert "secret" not in answer.text


async def test_content_is_served_with_a_strict_policy(client: httpx.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "content" / "index.html").write_text("<h1>Shop</h1>")
    answer = await client.get("/apps/shop", follow_redirects=True)
    assert answer.text == "<h1>Shop</h1>"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert (await client.get("/apps/none/")).status_code == 404


async def test_health_needs_no_sign_in(managed: httpx.AsyncClient) -> None:
    assert [(await managed.get(path)).status_code for path in ("/healthz", "/readyz")] == [200, 200]
