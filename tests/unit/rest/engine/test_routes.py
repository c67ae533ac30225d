"""The engine interface's paths, fields and codes, over an engine that only remembers."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tenantry.model.facts import IdentityProviderSettings
from tenantry.model.verdicts import Halt, Transient
from tenantry.rest.engine.routes import engine_routes
from tenantry.rest.release import release_label
from tests.unit.rest.engine_double import EngineDouble

API = "/api/v1"
IDP = {"name": "corp", "issuer_url": "https://id.example.com", "client_id": "tenantry"}


async def test_the_list_of_apps_has_exactly_the_specified_fields(client: httpx.AsyncClient, double: EngineDouble) -> None:
    double.packages.update({"1.0.0": double.folder, "1.1.0": double.folder})
    answer = await client.get(f"{API}/admin/apps")
    assert answer.json() == {
        "data": [
            {
                "id": "crm",
                "name": "",
                "author": "",
                "version": "",
                "availableVersions": "",
                "installed": False,
                "persisted": True,
            },
            {
                "id": "shop",
                "name": "Shop",
                "author": "Us",
                "version": "",
                "availableVersions": "1.0.0,1.1.0",
                "installed": False,
                "persisted": False,
            },
        ]
    }


async def test_publish_uploads_installs_and_passes_allow_drops(client: httpx.AsyncClient, double: EngineDouble) -> None:
    answer = await client.post(f"{API}/admin/apps/publish?allow_drops=true", files={"file": ("a.tapp", b"2.0.0+x1rest")})
    assert (answer.status_code, answer.json()) == (200, {"message": "shop 2.0.0+x1 is published", "success": True})
    assert double.calls == [("upload", "2.0.0+x1", 12), ("install", "shop", "2.0.0+x1", True)]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "/admin/apps/shop/install/v-000001", id="install"),
        pytest.param("POST", "/admin/apps/shop/drop-data", id="drop-data"),
        pytest.param("DELETE", "/admin/apps/shop/v-000001", id="delete version"),
        pytest.param("DELETE", "/admin/identities/admin", id="delete identity"),
    ],
)
async def test_a_change_answers_success_response(client: httpx.AsyncClient, method: str, path: str) -> None:
    await client.post(f"{API}/admin/apps/upload", files={"file": ("a.tapp", b"v-000001")})
    answer = await client.request(method, API + path)
    assert answer.status_code == 200
    assert set(answer.json()) == {"message", "success"}
    assert answer.json()["success"] is True


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        pytest.param("GET", "/nothing", 404, "no such path: /api/v1/nothing", id="unknown route"),
        pytest.param("GET", "/admin/apps/", 404, "no such path: /api/v1/admin/apps/", id="a slash too many"),
        pytest.param("PATCH", "/admin/apps", 405, "method PATCH is not allowed on /api/v1/admin/apps", id="wrong method"),
        pytest.param(
            "POST", "/admin/apps/shop/install/9?allow_drops=perhaps", 400, "allow_drops: must be true or false", id="bool"
        ),
        pytest.param("POST", "/admin/apps/shop/install/9", 404, "no version 9", id="absent version"),
        pytest.param("POST", "/admin/apps/shop/uninstall", 400, "app: shop is not installed", id="refused"),
        pytest.param("GET", "/admin/apps/shop/download/9", 404, "no version 9", id="absent download"),
        pytest.param("GET", "/admin/apps/shop/versions/9/download/sym", 404, "shop 9 has no symbols", id="no symbols"),
        pytest.param("DELETE", "/admin/idps/external/nope", 404, "no identity provider with id nope", id="absent provider"),
    ],
)
async def test_a_refusal_is_an_error_body(client: httpx.AsyncClient, method: str, path: str, status: int, error: str) -> None:
    answer = await client.request(method, API + path)
    assert (answer.status_code, answer.json()) == (status, {"error": error})


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        pytest.param("/admin/identities", b"{", "body: is not JSON", id="not JSON"),
        pytest.param("/admin/identities", b"[]", "body: must be a JSON object", id="not an object"),
        pytest.param("/admin/identities", b"{}", "username: is required; password: is required", id="missing"),
        pytest.param("/admin/identities", b'{"username":1,"password":"x"}', "username: must be a string", id="wrong type"),
        pytest.param(
            "/admin/identities",
            b'{"username":"a","password":"b","roles":[{"app":"crm"}]}',
            "roles.0.role: is required",
            id="nested",
        ),
        pytest.param("/admin/idps/external", b'{"name":"a","client_id":"b"}', "issuer_url: is required", id="provider"),
        pytest.param(
            "/admin/idps/external",
            b'{"name":"a","issuer_url":"https://x","client_id":"b","is_active":"yes"}',
            "is_active: must be true or false",
            id="boolean",
        ),
        pytest.param(
            "/admin/idps/external",
            b'{"name":"a","issuer_url":"ftp://x","client_id":"b"}',
            "issuer_url: ",
            id="issuer",
        ),
    ],
)
async def test_a_bad_body_is_400_naming_field_and_reason(client: httpx.AsyncClient, path: str, body: bytes, error: str) -> None:
    answer = await client.post(API + path, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)


async def test_an_oversized_body_is_413(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{API}/admin/identities", content=b" " * 300_000)
    assert (answer.status_code, answer.json()) == (413, {"error": "body: larger than 262144 bytes"})


async def test_unknown_fields_are_ignored_and_roles_are_granted(client: httpx.AsyncClient, double: EngineDouble) -> None:
    body = {"username": "ada", "password": "long enough", "roles": [{"app": "crm", "role": "editor"}], "shoe_size": 42}
    answer = await client.post(f"{API}/admin/identities", json=body)
    assert answer.json() == {"id": "id-1", "username": "ada", "created_at": "2026-11-01T00:00:01Z"}
    assert double.people["ada"].roles == {"crm": "editor"}


async def test_an_identity_provider_has_defaults_and_never_shows_its_secret(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{API}/admin/idps/external", json={**IDP, "client_secret": "hush"})
    assert answer.json() == {
        **IDP,
        "id": "idp-0",
        "scopes": "openid profile email",
        "auto_provision": False,
        "is_active": True,
        "created_at": "2026-11-01T00:00:00Z",
    }
    assert (await client.get(f"{API}/admin/idps/external")).json() == {"data": [answer.json()]}


async def test_an_edit_keeps_what_it_leaves_out(client: httpx.AsyncClient, double: EngineDouble) -> None:
    await client.post(f"{API}/admin/idps/external", json={**IDP, "client_secret": "hush"})
    answer = await client.put(f"{API}/admin/idps/external/idp-0", json={"is_active": False})
    assert answer.status_code == 200
    assert double.providers["idp-0"].settings == IdentityProviderSettings(
        "corp", "https://id.example.com", "tenantry", is_active=False
    )
    assert double.secrets["idp-0"].clear == "hush"


async def test_an_edit_may_not_empty_a_required_field(client: httpx.AsyncClient) -> None:
    await client.post(f"{API}/admin/idps/external", json=IDP)
    answer = await client.put(f"{API}/admin/idps/external/idp-0", json={"name": ""})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("name: ")


@pytest.mark.parametrize(
    ("failure", "status", "error"),
    [
        pytest.param(Halt(Transient("Busy", "try later")), 503, "try later", id="transient"),
        pytest.param(RuntimeError("secret detail"), 500, "an unexpected error; it is in the server's log", id="a bug"),
    ],
)
async def test_failures_are_error_bodies_too(
    client: httpx.AsyncClient, double: EngineDouble, failure: Exception, status: int, error: str
) -> None:
    double.fails_with = failure
    answer = await client.get(f"{API}/admin/apps")
    assert (answer.status_code, answer.json()) == (status, {"error": error})


async def test_pages_of_identities_join_to_the_whole_list(client: httpx.AsyncClient, double: EngineDouble) -> None:
    for number in range(6):
        await client.post(f"{API}/admin/identities", json={"username": f"u{number}", "password": "long enough"})
    seen: list[Any] = []
    path = f"{API}/admin/identities?limit=3"
    while path:
        answer = await client.get(path)
        seen += [one["username"] for one in answer.json()["data"]]
        path = answer.links.get("next", {}).get("url", "")
    assert seen == ["admin", "u0", "u1", "u2", "u3", "u4", "u5"]


async def test_a_list_that_did_not_change_is_304(client: httpx.AsyncClient) -> None:
    first = await client.get(f"{API}/admin/identities")
    again = await client.get(f"{API}/admin/identities", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_the_extension_tells_steps_marks_and_roles(client: httpx.AsyncClient) -> None:
    await client.post(f"{API}/admin/apps/upload", files={"file": ("a.tapp", b"v-000001")})
    steps = await client.get(f"{API}/admin/tenantry/apps/shop/steps/v-000001")
    assert steps.json() == {"data": [{"text": "drops column contacts.fax", "loses_data": True, "rows": 7, "impossible": False}]}
    body = {"username": "eve", "password_hash": "$argon2id$x", "fingerprint": "f1", "roles": [{"app": "crm", "role": "reader"}]}
    assert (await client.post(f"{API}/admin/tenantry/identities", json=body)).status_code == 200
    listed = (await client.get(f"{API}/admin/tenantry/identities")).json()["data"][-1]
    assert (listed["fingerprint"], listed["roles"]) == ("f1", [{"app": "crm", "role": "reader"}])
    plain = (await client.get(f"{API}/admin/identities")).json()["data"][-1]
    assert set(plain) == {"id", "username", "created_at"}


async def test_openapi_tells_every_path_and_never_422(client: httpx.AsyncClient) -> None:
    schema = (await client.get("/openapi.json")).json()
    told = {path for path in schema["paths"] if "/admin/" in path and "/tenantry/" not in path}
    nobody: Any = None
    assert told == {f"{API}{route.path}" for route in engine_routes(nobody, nobody) if "/tenantry/" not in route.path}
    assert schema["info"]["version"] == release_label()
    codes = {code for methods in schema["paths"].values() for one in methods.values() for code in one["responses"]}
    assert codes == {"200", "201", "204", "303", "400", "401", "403", "404", "429", "500", "503", "default"}


async def test_the_page_of_the_interface_loads_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs/api/")
    assert "/api/v1/admin/apps/{id}/install/{version}" in page.text
    loaded = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
    assert len(loaded) == 5
    assert page.text.count('src="') + page.text.count('href="') == len(loaded) + page.text.count('href="data:,"')
    assert {path: (await client.get(path)).status_code for path in loaded} == dict.fromkeys(loaded, 200)
    assert "script-src 'self';" in page.headers["content-security-policy"]


async def test_an_edit_that_carries_no_field_is_refused_on_every_edit_route(
    client: httpx.AsyncClient, double: EngineDouble
) -> None:
    await client.post(f"{API}/admin/idps/external", json=IDP)
    paths = (await client.get("/openapi.json")).json()["paths"]
    edits = [path for path, operations in paths.items() if "put" in operations]
    answers = {path: await client.put(path.format(id="idp-0", username="admin"), json={"unknown": 1}) for path in edits}
    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(edits, 400)
    assert len(edits) == 4
