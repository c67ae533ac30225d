"""Access by role: every endpoint of the OpenAPI, on one's own, a foreign and an absent object."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx

from tenantry.rest.apps.home import home_page
from tests.scenario.rest_world import PASSWORD, world_in
from tests.support.endpoints import ABSENT, OPEN, Endpoint, endpoints, ids_of, without

SIGN_OUT = ("POST", "/api/v1/auth/logout")
BAD_TOKENS = {"missing": {}, "forged": {"Authorization": "Bearer e30.e30.e30"}, "basic": {"Authorization": "Basic cm9vdDp4"}}
WRITES = frozenset({"POST", "PUT", "DELETE"})


async def test_no_endpoint_but_sign_in_answers_without_a_good_token(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        schema = (await world("", "GET", "/openapi.json")).json()
        wrong = {}
        absent = dict.fromkeys(("tenants", "environments", "operations", "users"), ABSENT)
        for endpoint in endpoints(schema):
            for name, headers in BAD_TOKENS.items():
                answer = await world.http.request(endpoint.method, endpoint.to(absent), headers=headers)
                refused = (
                    answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer" and "error" in answer.json()
                )
                if refused != ((endpoint.method, endpoint.path) not in OPEN):
                    wrong[endpoint, name] = answer.status_code
        assert wrong == {}
        assert len(list(endpoints(schema))) > 40


async def test_a_foreign_object_is_answered_exactly_as_one_that_does_not_exist(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await ids_of(world, "acme")
        foreign = await ids_of(world, "globex")
        absent = dict.fromkeys(foreign, ABSENT)
        differing, seen = {}, 0
        for endpoint in endpoints((await world("", "GET", "/openapi.json")).json()):
            if endpoint.role or ("{id}" not in endpoint.path and "{environmentId}" not in endpoint.path):
                continue
            for user in ("acme-admin", "acme-viewer"):
                answers = [
                    await world(user, endpoint.method, endpoint.to(ids).removeprefix("/api/v1")) for ids in (foreign, absent)
                ]
                told = {
                    (a.status_code, without(a.text, foreign), tuple(sorted(set(a.headers) - {"content-length"}))) for a in answers
                }
                seen += 1
                if len(told) != 1 or answers[0].status_code != 404:
                    differing[endpoint, user] = told
        assert differing == {}
        assert seen >= 48


async def test_a_viewer_reads_its_tenant_and_writes_nothing(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        own = await ids_of(world, "acme")
        wrong = {}
        for endpoint in endpoints((await world("", "GET", "/openapi.json")).json()):
            if (endpoint.method, endpoint.path) in {*OPEN, SIGN_OUT}:
                continue
            answer = await world("acme-viewer", endpoint.method, endpoint.to(own).removeprefix("/api/v1"))
            forbidden = endpoint.method in WRITES or endpoint.role
            missing = endpoint.method == "GET" and endpoint.names_nothing(own)
            expected = {403} if forbidden else {404} if missing else {200, 400}
            if answer.status_code not in expected:
                wrong[endpoint] = (answer.status_code, answer.text)
        assert wrong == {}


async def test_a_superusers_route_answers_other_roles_403_before_it_looks_anything_up(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        own, foreign = await ids_of(world, "acme"), await ids_of(world, "globex")
        every = list(endpoints((await world("", "GET", "/openapi.json")).json()))
        told = {}
        for endpoint in (each for each in every if each.role):
            for user in ("acme-admin", "acme-viewer"):
                for ids in (own, foreign, dict.fromkeys(own, ABSENT)):
                    answer = await world(user, endpoint.method, endpoint.to(ids).removeprefix("/api/v1"), content=b"no JSON")
                    told[endpoint, user, ids["tenants"]] = (answer.status_code, answer.text)
        assert set(told.values()) == {(403, '{"error":"only a SUPERUSER may do this"}')}
        assert {each.path for each in every if each.role} == {
            each.path for each in every if each.path.startswith(("/api/v1/tenants", "/api/v1/users"))
        }
        assert (await world("root", "GET", f"/users/{own['users']}")).status_code == 200


async def test_an_edit_that_carries_no_field_is_refused_on_every_edit_route(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        ids = await ids_of(world, "acme")
        admin = f"/engines/{ids['environments']}/api/v1/admin"
        idp = {"name": "corp", "issuer_url": "https://id.example.com", "client_id": "tenantry"}
        provider = await world("acme-admin", "POST", f"{admin}/idps/external", json=idp)
        identity = await world("acme-admin", "POST", f"{admin}/identities", json={"username": "bob", "password": PASSWORD})
        assert (provider.status_code, identity.status_code) == (200, 200), (provider.text, identity.text)
        edits = [each for each in endpoints((await world("", "GET", "/openapi.json")).json()) if each.edits]
        accepted = {}
        for endpoint in edits:
            path = endpoint.path.replace("{id}", provider.json()["id"]) if "/engines/" in endpoint.path else endpoint.path
            path = Endpoint(endpoint.method, path.replace("{username}", "bob")).to(ids).removeprefix("/api/v1")
            for body in ({}, {"unknown": 1}, {"name": None}):
                for query in ("", "?dryRun=true"):
                    answer = await world("root", endpoint.method, path + query, json=body)
                    if answer.status_code != 400:
                        accepted[endpoint, str(body), query] = (answer.status_code, answer.text)
        assert accepted == {}
        assert len(edits) == 5


async def test_lists_hold_what_the_caller_may_see(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        acme, globex = await ids_of(world, "acme"), await ids_of(world, "globex")

        async def listed(user: str, path: str) -> set[str]:
            return {one["id"] for one in (await world(user, "GET", path)).json()}

        assert await listed("acme-viewer", "/environments") == {acme["environments"]}
        assert await listed("root", "/environments") == {acme["environments"], globex["environments"]}
        assert globex["operations"] not in await listed("acme-admin", "/operations")
        assert {acme["operations"], globex["operations"]} <= await listed("root", "/operations")


async def test_a_tenant_made_again_under_the_same_name_sees_nothing_of_the_first(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        first = await ids_of(world, "acme")
        gone = await world("root", "DELETE", f"/tenants/{first['tenants']}", headers={"Prefer": "wait=60"})
        assert gone.status_code == 202
        assert (await world("acme-admin", "GET", "/auth/me")).status_code == 401, "its tenant does not exist"


async def test_errors_are_bodies_with_an_error_for_unknown_routes_and_methods_too(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        for method, path, status in (("GET", "/nothing", 404), ("PATCH", "/environments", 405), ("GET", "/environments/", 404)):
            answer = await world("root", method, path)
            assert (answer.status_code, list(answer.json())) == (status, ["error"]), path


async def test_a_cookie_signs_nobody_in(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        token = await world.token("root")
        answer = await world.http.get("/api/v1/auth/me", headers={"Cookie": f"Authorization=Bearer {token}; token={token}"})
        assert answer.status_code == httpx.codes.UNAUTHORIZED


async def test_the_description_names_every_parameter_of_every_path(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        schema = (await world("", "GET", "/openapi.json")).json()
        for path, operations in schema["paths"].items():
            wanted = {part[1:-1] for part in path.split("/") if part.startswith("{")}
            for operation in operations.values():
                assert {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"} == wanted, path
        assert schema["info"]["version"].startswith("v")
        # ECMA-262, which JSON Schema means: there `\z` is the letter z, and clients made from the document refuse good values.
        assert re.findall(r"\\\\[zZA]", json.dumps(schema)) == []
        assert (await world("", "GET", "/docs/api/")).status_code == 200


async def test_the_first_page_links_what_answers_everybody_and_names_no_tenant(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        page = await world("", "GET", "/")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        links = re.findall(r'href="([^"]+)"', page.text)
        assert "/docs/api/" in links
        # A checkout has no built documentation until somebody builds it.
        answers = {link: (await world("", "GET", link)).status_code for link in links if link != "/docs/"}
        assert answers == dict.fromkeys(answers, 200)
        assert not any(tenant in page.text for tenant in ("acme", "globex"))


def test_the_first_page_escapes_where_it_is_reached() -> None:
    assert 'href="/a&quot;&gt;&lt;b&gt;/docs/"' in home_page("<T>", '/a"><b>')
    assert "<title>&lt;T&gt;</title>" in home_page("<T>", "")
