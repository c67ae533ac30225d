"""Users of a real identity provider at a real engine: by the browser's sign-in, and by bearer tokens."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import orjson
import pytest

from tenantry.model.verdicts import Unauthorized
from tenantry.oidc.issuers import PAUSE_S
from tests.scenario.data_world import DATA
from tests.scenario.identity_provider import authorized
from tests.scenario.people.sign_in_world import CONTACTS, ROOT, World, sign_in_world
from tests.scenario.postgres import database_url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    async with sign_in_world(tmp_path, url) as one:
        yield one


async def _sign_in(world: World, browser: httpx.AsyncClient, sub: str = "ada", next_: str = "/apps/crm/") -> httpx.Response:
    """The last answer of a sign-in."""
    begun = await browser.get(f"/auth/login/{world.provider.id}", params={"next": next_})
    assert begun.status_code == 303, begun.text
    return await browser.get(await authorized(begun.headers["location"], sub))


async def _id_token(world: World, sub: str = "ada", client_id: str = "tenantry-dev") -> str:
    """An ID token that another client of the provider got for itself."""
    query = {"response_type": "code", "client_id": client_id, "redirect_uri": "http://127.0.0.1/cb", "scope": "openid profile"}
    async with httpx.AsyncClient(base_url=world.process.url) as client:
        target = await authorized(str(client.base_url.join(f"/oauth2/authorize?{httpx.QueryParams(query)}")), sub)
        code = parse_qs(urlsplit(target).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": query["redirect_uri"]}
        answer = await client.post("/oauth2/token", data=form, auth=(client_id, "any"))
        token: str = answer.json()["id_token"]
        return token


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


ELSEWHERE = (
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example/",
    "/\t/evil.example/",
    "after",
    "/..",
    "/apps/../../x",
    "/apps/./x",
    "/apps/%2e%2e/%2E./.%2e/x",
    "/apps/%2e/x",
    "/apps/..%2fx",
)


@pytest.mark.slow
async def test_a_sign_in_ends_on_a_path_of_this_engine_as_a_browser_reads_it(world: World) -> None:
    async with world.browser() as browser:
        for elsewhere in ELSEWHERE:
            begun = await browser.get(f"/auth/login/{world.provider.id}", params={"next": elsewhere})
            assert begun.status_code == 400 and "must be a path of this engine" in begun.text, elsewhere
        inside = await browser.get(f"/auth/login/{world.provider.id}", params={"next": "/apps/v1..2/?from=../a#.."})
        assert inside.status_code == 303, inside.text


@pytest.mark.slow
async def test_a_browser_signs_in_and_reads_and_writes_within_the_default_role(world: World) -> None:
    async with world.browser() as browser:
        listed = (await browser.get("/auth/login")).json()["data"]
        assert listed == [{"id": world.provider.id, "name": "corp", "url": f"{world.url}/auth/login/{world.provider.id}"}]
        done = await _sign_in(world, browser)
        assert (done.status_code, done.headers["location"]) == (303, "/apps/crm/")
        me = (await browser.get("/api/v1/auth/me")).json()
        assert (me["username"], me["role"]) == ("ada", "USER")
        inserted = await browser.post(CONTACTS, json={"email": "a@x"}, headers={"Origin": world.url})
        assert inserted.status_code == 201
        assert len((await browser.get(CONTACTS)).json()) == 1
        assert (await browser.post("/auth/logout", headers={"Origin": world.url})).status_code == 204
        assert (await browser.get(CONTACTS)).status_code == 401


@pytest.mark.slow
async def test_a_session_that_was_signed_out_is_refused_also_after_a_restart(world: World) -> None:
    async with world.browser() as browser, world.browser() as elsewhere, world.browser() as thief:
        await _sign_in(world, browser)
        await _sign_in(world, elsewhere)
        copied = browser.cookies["tenantry_session"]
        thief.cookies.set("tenantry_session", copied)
        assert (await thief.get(CONTACTS)).status_code == 200
        own = {"Origin": world.url}
        assert (await browser.post("/auth/logout", headers=own)).status_code == 204
        for _ in range(2):
            for path in (CONTACTS, "/api/v1/auth/me"):
                assert (await thief.get(path)).status_code == 401
                assert (await elsewhere.get(path)).status_code == 200
            assert (await thief.post(CONTACTS, json={"email": "t@x"}, headers=own)).status_code == 401
            assert (await browser.post("/auth/logout", headers=own)).status_code == 204
            await world.restart()


@pytest.mark.slow
async def test_ended_sessions_are_kept_until_their_cookies_expire(world: World) -> None:
    now = int(datetime.now(UTC).timestamp())
    for session, until in (("old", now - 1), ("ended", now + 60), ("ended", now + 60), ("last", now + 60)):
        await world.engine.end_session(session, until)
    assert await world.engine.signed_in("nobody", "old") is None
    for session in ("ended", "last"):
        with pytest.raises(Unauthorized, match="signed out"):
            await world.engine.signed_in("nobody", session)


@pytest.mark.slow
async def test_the_browser_is_sent_with_pkce_state_nonce_and_the_scopes_as_declared(world: World) -> None:
    async with world.browser() as browser:
        begun = await browser.get(f"/auth/login/{world.provider.id}")
    query = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    assert query["scope"] == "openid profile email phone"
    assert (query["client_id"], query["response_type"]) == ("tenantry-dev", "code")
    assert query["redirect_uri"] == f"{world.url}/auth/callback"
    assert query["code_challenge_method"] == "S256" and len(query["code_challenge"]) == 43
    assert min(len(query["state"]), len(query["nonce"])) >= 43
    cookie = begun.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie and "path=/" in cookie


@pytest.mark.slow
async def test_the_declared_url_counts_whatever_a_request_says_of_itself(world: World) -> None:
    world.served.public_url = "https://crm.example.com/e"
    async with world.browser() as browser:
        begun = await browser.get(
            f"/auth/login/{world.provider.id}", headers={"X-Forwarded-Proto": "http", "Host": "evil.example"}
        )
        listed = (await browser.get("/auth/login")).json()["data"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    assert query["redirect_uri"] == "https://crm.example.com/e/auth/callback"
    assert "; secure" in begun.headers["set-cookie"].lower()
    assert listed[0]["url"] == f"https://crm.example.com/e/auth/login/{world.provider.id}"


@pytest.mark.slow
async def test_roles_that_a_token_claims_count_before_the_default_ones(world: World) -> None:
    """ada's groups name her a reader of crm; the default role is editor, and impostor has no groups."""
    async with world.browser() as browser:
        for claim, sub, written in (("", "ada", 201), ("groups", "ada", 403), ("groups", "impostor", 201), ("email", "ada", 201)):
            await world.edit(roles_claim=claim)
            await _sign_in(world, browser, sub)
            token = _bearer(await _id_token(world, sub))
            for headers in ({"Origin": world.url}, token):
                email = f"{claim}@{sub}.{next(iter(headers))}"
                answer = await browser.post(CONTACTS, json={"email": email}, headers=headers)
                assert answer.status_code == written, (claim, sub, [*headers])
                assert (await browser.get(CONTACTS, headers=headers)).status_code == 200


@pytest.mark.slow
async def test_a_claim_that_is_no_longer_asked_for_gives_a_session_nothing(world: World) -> None:
    await world.edit(roles_claim="groups", default_roles={})
    async with world.browser() as browser:
        await _sign_in(world, browser)
        assert (await browser.get(CONTACTS)).status_code == 200
        await world.edit(default_roles={})
        assert (await browser.get(CONTACTS)).status_code == 403


@pytest.mark.slow
async def test_a_write_by_cookie_comes_from_a_page_of_the_engine(world: World) -> None:
    async with world.browser() as browser:
        await _sign_in(world, browser)
        for origin in ("", "null", "https://evil.example", "http://127.0.0.1", f"{world.url}.evil.example"):
            headers = {"Origin": origin} if origin else {}
            for method, path in (
                ("POST", CONTACTS),
                ("PATCH", f"{CONTACTS}/1"),
                ("DELETE", f"{CONTACTS}/1"),
                ("POST", "/auth/logout"),
            ):
                assert (await browser.request(method, path, headers=headers)).status_code == 403, (origin, method)


@pytest.mark.slow
async def test_the_administration_takes_no_cookie_and_no_foreign_token(world: World) -> None:
    async with world.browser() as browser:
        await _sign_in(world, browser, "impostor")
        assert (await browser.get("/api/v1/auth/me")).json()["role"] == "USER"
        assert (await browser.get("/api/v1/admin/apps")).status_code == 401
        token = await _id_token(world, "impostor")
        assert (await browser.get("/api/v1/admin/apps", headers=_bearer(token))).status_code == 401
        session = browser.cookies["tenantry_session"]
    async with world.browser() as other:
        for path in ("/api/v1/admin/apps", CONTACTS, "/api/v1/auth/me"):
            assert (await other.get(path, headers=_bearer(session))).status_code == 401, path


@pytest.mark.slow
async def test_a_token_of_the_issuer_is_a_bearer_token_of_the_data_api(world: World) -> None:
    async with world.browser() as client:
        client.headers.update(_bearer(await _id_token(world)))
        assert (await client.post(CONTACTS, json={"email": "a@x"})).status_code == 201
        first = (await client.get("/api/v1/auth/me")).json()
        client.headers.update(_bearer(await _id_token(world)))
        assert (await client.get("/api/v1/auth/me")).json() == first


@pytest.mark.slow
async def test_a_token_for_another_audience_or_of_another_key_is_refused(world: World) -> None:
    async with world.browser() as client:
        assert (await client.get(CONTACTS, headers=_bearer(await _id_token(world, client_id="other")))).status_code == 401
        head, body, signature = (await _id_token(world)).split(".")
        claims = orjson.loads(base64.urlsafe_b64decode(body + "=="))
        forged = base64.urlsafe_b64encode(orjson.dumps({**claims, "sub": "bob"})).decode().rstrip("=")
        assert (await client.get(CONTACTS, headers=_bearer(f"{head}.{forged}.{signature}"))).status_code == 401


@pytest.mark.slow
async def test_who_is_unknown_is_refused_where_nobody_is_provisioned(world: World) -> None:
    await world.edit(auto_provision=False)
    async with world.browser() as browser:
        assert (await _sign_in(world, browser)).status_code == 403
        assert (await browser.get(CONTACTS, headers=_bearer(await _id_token(world)))).status_code == 403
        await world.edit(auto_provision=True)
        assert (await browser.get(CONTACTS, headers=_bearer(await _id_token(world)))).status_code == 200
        await world.edit(auto_provision=False)
        assert (await _sign_in(world, browser)).status_code == 303
        assert (await browser.get(CONTACTS)).status_code == 200


@pytest.mark.slow
async def test_an_inactive_provider_ends_its_sign_ins_at_once(world: World) -> None:
    token = await _id_token(world)
    async with world.browser() as browser, world.browser() as under_way:
        await _sign_in(world, browser)
        begun = await under_way.get(f"/auth/login/{world.provider.id}")
        back = await authorized(begun.headers["location"], "ada")
        assert (await browser.get(CONTACTS)).status_code == 200
        await world.edit(is_active=False)
        assert (await browser.get(CONTACTS)).status_code == 401
        assert (await browser.get(CONTACTS, headers=_bearer(token))).status_code == 401
        assert (await under_way.get(back)).status_code == 401
        assert (await browser.get(f"/auth/login/{world.provider.id}")).status_code == 404
        assert (await browser.get("/auth/login")).json() == {"data": []}
        await world.edit(is_active=True)
        assert (await browser.get(CONTACTS)).status_code == 200
        await world.engine.delete_identity_provider(world.provider.id)
        assert (await browser.get(CONTACTS)).status_code == 401


@pytest.mark.slow
async def test_a_callback_belongs_to_the_browser_that_began(world: World) -> None:
    async with world.browser() as victim, world.browser() as attacker:
        begun = await attacker.get(f"/auth/login/{world.provider.id}")
        back = await authorized(begun.headers["location"], "ada")
        assert (await victim.get(back)).status_code == 401
        await victim.get(f"/auth/login/{world.provider.id}")
        assert (await victim.get(back)).status_code == 401
        assert (await attacker.get(back.replace("state=", "state=x"))).status_code == 401
        assert (await attacker.get(back)).status_code == 303
        assert (await attacker.get(back)).status_code == 401


NEXT = {
    "another host": "https://evil.example/",
    "another host without a scheme": "//evil.example/",
    "a backslash": "/\\evil.example/",
    "a script": "javascript:alert(1)",
    "a header": "/a\r\nSet-Cookie: a=b",
    "a way up": "/apps/../../",
    "nothing": "",
}


@pytest.mark.slow
async def test_a_sign_in_ends_on_a_path_of_the_engine(world: World) -> None:
    async with world.browser() as browser:
        for name, path in NEXT.items():
            answer = await browser.get(f"/auth/login/{world.provider.id}", params={"next": path})
            assert (answer.status_code, answer.json()["error"][:5]) == (400, "next:"), name


@pytest.mark.slow
async def test_new_keys_of_the_issuer_count_after_a_pause_and_the_old_ones_end(world: World) -> None:
    old = await _id_token(world)
    async with world.browser() as client:
        assert (await client.get(CONTACTS, headers=_bearer(old))).status_code == 200
        await world.process.stop()
        await world.process.start()
        new = await _id_token(world)
        assert (await client.get(CONTACTS, headers=_bearer(new))).status_code == 401
        world.later(PAUSE_S)
        assert (await client.get(CONTACTS, headers=_bearer(new))).status_code == 200
        assert (await client.get(CONTACTS, headers=_bearer(old))).status_code == 401


@pytest.mark.slow
async def test_an_engine_below_a_path_signs_in_below_that_path(world: World) -> None:
    async with world.browser() as browser:
        refused = await browser.get(f"{ROOT}/auth/login/{world.provider.id}", params={"next": "/e/acme/other/"})
        assert refused.status_code == 400
        begun = await browser.get(f"{ROOT}/auth/login/{world.provider.id}")
        assert f"Path={ROOT}/;" in begun.headers["set-cookie"]
        back = await authorized(begun.headers["location"], "ada")
        assert back.startswith(f"{world.url}{ROOT}/auth/callback?")
        done = await browser.get(back)
        assert (done.status_code, done.headers["location"]) == (303, f"{ROOT}/api/v1/auth/me")
        assert (await browser.get(f"{ROOT}/api/v1/auth/me")).json()["username"] == "ada"
        inserted = await browser.post(f"{ROOT}{DATA}/kinds", json={"region": "a,b", "code": "c/d"}, headers={"Origin": world.url})
        assert inserted.status_code == 201
        assert (await browser.get(f"{ROOT}{DATA}/kinds/a%2Cb,c%2Fd")).json()["code"] == "c/d"
        assert (await browser.get("/api/v1/auth/me")).status_code == 401
