"""The client of engines: errors come back as the Halts that they were, and an engine of another gets the plain interface."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.engine.http import HttpEngines
from tenantry.model.facts import EngineApp, EngineEndpoint, IdentityProviderSettings, PackageFacts, Password, SecretFacts
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Conflict, Forbidden, Halt, Invalid, NotFound, Transient, Unauthorized
from tenantry.ports import EngineAdmin
from tenantry.rest.outbound import Rules

SECRET = Ref("Secret", "tenant-acme", "engine-credentials")
OWN = EngineEndpoint("e1", "http://engine")
FOREIGN = EngineEndpoint("e1", "http://engine/base/", SECRET)


class Signer:
    def sign(self, claims: Any, ttl: timedelta) -> str:
        return f"{claims['sub']}@{claims['aud']} for {ttl}"


class OneSecret:
    def __init__(self, password: Password) -> None:
        self.password = password

    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        assert (namespace, name, key, for_kind) == ("tenant-acme", "engine-credentials", "password", "environment")
        return self.password

    def look(self, namespace: str, name: str, key: str, for_kind: str) -> SecretFacts:
        raise NotImplementedError

    async def ensure(self, ref: Ref, for_kind: str) -> None:
        raise NotImplementedError

    async def remove(self, ref: Ref) -> None:
        raise NotImplementedError


class Wired:
    """An engine made of canned answers, and what it was asked."""

    def __init__(self, tmp_path: Path, password: Password) -> None:
        self.requests: list[httpx.Request] = []
        self.rules = Rules(http=True)
        self.answer: Callable[[httpx.Request], httpx.Response] = lambda request: httpx.Response(200, json={"data": []})
        transport = httpx.MockTransport(self._handle)
        facts = PackageFacts("crm", "1.0.0", "CRM", "Us", "0" * 64, 1, 0, False)
        self.engines = HttpEngines(
            Signer(),
            OneSecret(password),
            lambda path: facts,
            tmp_path,
            lambda url: transport,
            rules_for=lambda endpoint: self.rules,
            guard=lambda rules: transport,
        )

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        return self.answer(request)

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.requests]

    @property
    def sent(self) -> Any:
        return json.loads(self.requests[-1].content)


@pytest.fixture
def wired(tmp_path: Path) -> Wired:
    return Wired(tmp_path, Password(clear="s3cret"))


async def test_our_engines_are_entered_with_a_five_minute_token_for_that_engine(wired: Wired) -> None:
    await wired.engines.at(OWN).apps()
    assert wired.requests[0].headers["authorization"] == "Bearer operator@engine:e1 for 0:05:00"


async def test_engines_of_others_are_entered_with_the_password_of_their_secret(wired: Wired) -> None:
    await wired.engines.at(FOREIGN).apps()
    assert wired.asked == ["GET /base/api/v1/admin/apps"]
    assert wired.requests[0].headers["authorization"] == f"Basic {base64.b64encode(b'admin:s3cret').decode()}"


async def test_a_hash_cannot_enter_an_engine_of_another(tmp_path: Path) -> None:
    wired = Wired(tmp_path, Password(hash="$argon2id$"))
    with pytest.raises(Halt, match="NoClearPassword"):
        await wired.engines.at(FOREIGN).apps()
    assert wired.requests == []


@pytest.mark.parametrize(
    ("status", "halt"),
    [(400, Invalid), (401, Unauthorized), (403, Forbidden), (404, NotFound), (412, Conflict), (413, Invalid)],
)
async def test_an_error_answer_is_the_halt_that_it_was(wired: Wired, status: int, halt: type[Halt]) -> None:
    wired.answer = lambda request: httpx.Response(status, json={"error": "username: is taken"})
    with pytest.raises(halt, match="username: is taken"):
        await wired.engines.at(OWN).delete_identity("ada")


def raising(error: Exception) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(lambda request: httpx.Response(503, json={"error": "busy"}), "EngineFailing", id="503"),
        pytest.param(lambda request: httpx.Response(500, text="<html>"), "EngineFailing", id="500 without a body"),
        pytest.param(lambda request: httpx.Response(302, headers={"Location": "http://evil"}), "EngineAnswer", id="redirect"),
        pytest.param(lambda request: httpx.Response(200, text="<html>"), "EngineAnswer", id="no JSON"),
        pytest.param(lambda request: httpx.Response(200, json=[]), "EngineAnswer", id="no object"),
        pytest.param(lambda request: httpx.Response(200, json={"data": {}}), "EngineAnswer", id="no list"),
        pytest.param(lambda request: httpx.Response(200, json={"data": [{"id": "x"}]}), "EngineAnswer", id="missing fields"),
        pytest.param(lambda request: httpx.Response(200, json={"data": ["x"]}), "EngineAnswer", id="strings for objects"),
        pytest.param(raising(httpx.ReadTimeout("slow")), "EngineTimeout", id="time-out"),
        pytest.param(raising(httpx.ConnectError("refused")), "EngineUnreachable", id="refused"),
        pytest.param(raising(httpx.RemoteProtocolError("cut")), "EngineUnreachable", id="cut"),
    ],
)
async def test_what_may_pass_is_transient(wired: Wired, answer: Callable[[httpx.Request], httpx.Response], reason: str) -> None:
    wired.answer = answer
    with pytest.raises(Halt) as caught:
        await wired.engines.at(OWN).apps()
    assert isinstance(caught.value.verdict, Transient)
    assert caught.value.verdict.reason == reason
    assert len(wired.requests) == 1


async def test_apps_of_another_engine_are_read_by_the_plain_list(wired: Wired) -> None:
    item = {"id": "crm", "name": "CRM", "author": "X", "version": "2", "availableVersions": "1, 2", "installed": True}
    wired.answer = lambda request: httpx.Response(200, json={"data": [{**item, "persisted": True}]})
    assert await wired.engines.at(FOREIGN).apps() == (EngineApp("crm", "CRM", "X", "2", ("1", "2"), True),)


async def test_one_identity_is_asked_for_by_its_name(wired: Wired) -> None:
    wired.answer = lambda request: httpx.Response(200, json={"data": []})
    assert await wired.engines.at(OWN).identities("ann@example.com") == ()
    assert wired.asked == ["GET /api/v1/admin/tenantry/identities/named/ann%40example.com"]


async def test_one_identity_of_an_engine_of_an_earlier_release_is_found_in_the_list(wired: Wired) -> None:
    people = [{"id": "1", "username": "Ada", "created_at": ""}, {"id": "2", "username": "bob", "created_at": ""}]

    def answer(request: httpx.Request) -> httpx.Response:
        if "named" in request.url.path:
            return httpx.Response(404, json={"error": "no such route"})
        return httpx.Response(200, json={"data": people})

    wired.answer = answer
    assert [one.username for one in await wired.engines.at(OWN).identities("ada")] == ["Ada"]


async def test_a_time_that_cannot_be_read_does_not_matter(wired: Wired) -> None:
    people = [{"id": "1", "username": "ada", "created_at": "last week"}, {"id": "2", "username": "bob", "created_at": ""}]
    wired.answer = lambda request: httpx.Response(200, json={"data": people})
    assert {one.created_at for one in await wired.engines.at(FOREIGN).identities()} == {datetime(1970, 1, 1, tzinfo=UTC)}


async def _add(admin: EngineAdmin) -> None:
    await admin.add_identity("ada", Password(clear="pässword", fingerprint="f"))


async def _set(admin: EngineAdmin) -> None:
    await admin.set_password("a/b", Password(clear="pw", fingerprint="f"))


async def _provider(admin: EngineAdmin) -> None:
    await admin.edit_identity_provider("i1", IdentityProviderSettings("corp", "https://x", "c"), None)


@pytest.mark.parametrize(
    ("call", "asked", "fields"),
    [
        pytest.param(_add, "POST /base/api/v1/admin/identities", {"username", "password"}, id="add"),
        pytest.param(_set, "PUT /base/api/v1/admin/identities/a%2Fb", {"password"}, id="set password"),
        pytest.param(
            _provider,
            "PUT /base/api/v1/admin/idps/external/i1",
            {"name", "issuer_url", "client_id", "scopes", "auto_provision", "is_active"},
            id="edit provider",
        ),
    ],
)
async def test_an_engine_of_another_is_sent_the_specified_fields_alone(
    wired: Wired, call: Callable[[EngineAdmin], Any], asked: str, fields: set[str]
) -> None:
    body = {"id": "1", "username": "ada", "created_at": "", "message": "", "success": True}
    wired.answer = lambda request: httpx.Response(200, json=body)
    await call(wired.engines.at(FOREIGN))
    assert wired.asked == [asked]
    assert set(wired.sent) == fields


@pytest.mark.parametrize("password", [Password(hash="$argon2id$x")], ids=["a hash"])
async def test_an_engine_of_another_is_never_sent_a_hash(wired: Wired, password: Password) -> None:
    with pytest.raises(Invalid, match="clear text only"):
        await wired.engines.at(FOREIGN).add_identity("ada", password)
    assert wired.requests == []


async def test_an_engine_of_another_does_not_take_roles(wired: Wired) -> None:
    with pytest.raises(Invalid, match="roles"):
        await wired.engines.at(FOREIGN).set_roles("ada", [("crm", "editor")])
    await wired.engines.at(FOREIGN).set_roles("ada", [])
    assert wired.requests == []


@pytest.mark.parametrize("variant", ["A", "B"])
async def test_both_download_variants_of_other_engines_are_spoken(wired: Wired, tmp_path: Path, variant: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        speaks_a = request.url.path.endswith("/crm/download/1.0.0")
        return httpx.Response(200, content=b"package") if speaks_a == (variant == "A") else httpx.Response(404)

    wired.answer = answer
    download = await wired.engines.at(FOREIGN).download("crm", "1.0.0")
    assert (download.path.read_bytes(), download.size, download.filename) == (b"package", 7, "crm-1.0.0.tapp")


async def test_a_download_that_breaks_off_leaves_nothing(wired: Wired, tmp_path: Path) -> None:
    async def broken() -> Any:
        yield b"half"
        raise httpx.ReadError("cut")

    wired.answer = lambda request: httpx.Response(200, content=broken())
    with pytest.raises(Halt, match="EngineUnreachable"):
        await wired.engines.at(OWN).download("crm", "1.0.0")
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


async def test_an_upload_is_one_multipart_file(wired: Wired, tmp_path: Path) -> None:
    package = tmp_path / "crm.tapp"
    package.write_bytes(b"zip")
    wired.answer = lambda request: httpx.Response(200, json={"message": "", "success": True})
    facts = await wired.engines.at(FOREIGN).publish(package, allow_drops=True)
    assert (facts.app, facts.version) == ("crm", "1.0.0")
    assert wired.asked == ["POST /base/api/v1/admin/apps/publish?allow_drops=true"]
    assert b'name="file"; filename="crm.tapp"' in wired.requests[0].content
