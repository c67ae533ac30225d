"""Forged tokens at an engine that trusts two issuers: 401 each, and nothing that a token names is ever asked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import orjson
import pytest
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tenantry.engine.access import Served
from tenantry.engine.oidc.issuers import PAUSE_S, STALE_S, Issuers, keys_of
from tenantry.engine.oidc.tokens import ForeignTokens
from tenantry.engine.outbound import Outbound, Rules, Unreachable
from tenantry.engine.packages.build import build
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import EngineIdentityProvider, IdentityProviderSettings, Password
from tenantry.model.verdicts import Unauthorized
from tenantry.rest.uploads import Uploads
from tests.scenario.data_world import DATA, MANIFEST
from tests.scenario.serving import serving

LOOPBACK = Rules(http=True, networks=(ip_network("127.0.0.0/8"),))
CLIENT = "tenantry"
RSA = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"}, private=True)
PINNED = RSAKey.generate_key(2048, {"kid": "pinned", "alg": "RS256"}, private=True)
FOREIGN = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
with pytest.warns(SecurityWarning):
    SHORT = RSAKey.generate_key(1024, {"kid": "short"}, private=True)
PAIR = RSAKey.generate_key(2048, {"kid": "enc", "use": "enc"}, private=True)
OCT = OctKey.import_key(b"0" * 32, {"kid": "oct"})
ALGORITHMS = ["RS256", "RS512", "PS256", "ES256", "EdDSA", "Ed25519", "HS256", "HS512", "none"]


@dataclass
class Issuer:
    """A test's own issuer: what it publishes can be anything.

    asked: the paths that were asked of it; exchanged: the Authorization header and form of each code that was.
    """

    url: str = ""
    keys: list[Any] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    asked: list[str] = field(default_factory=list)
    id_token: str = ""
    exchanged: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])

    async def _answer(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        if request.url.path == "/token":
            form = dict(parse_qsl((await request.body()).decode()))
            self.exchanged.append((request.headers.get("authorization", ""), form))
            return JSONResponse({"id_token": self.id_token, "access_token": "x", "token_type": "Bearer"})
        if self.raw is not None:
            return Response(self.raw, media_type="application/json")
        if request.url.path == "/jwks":
            return JSONResponse({"keys": self.keys})
        standard = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
        }
        return JSONResponse({**standard, **self.document})


@dataclass
class World:
    """later: moves the clock of the engine's look-ups by seconds."""

    client: httpx.AsyncClient
    engine: Engine
    issuer: Issuer
    other: Issuer
    providers: list[EngineIdentityProvider]
    later: Callable[[float], None]

    async def status(self, token: str) -> int:
        return (await self.client.get(f"{DATA}/contacts", headers={"Authorization": f"Bearer {token}".encode()})).status_code


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    now = [0.0]

    def later(seconds: float) -> None:
        now[0] += seconds

    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "app.yaml").write_text(MANIFEST)
    build(tmp_path / "source", tmp_path / "crm.tapp")
    (tmp_path / "incoming").mkdir()
    engine = await Engine.open(tmp_path / "data")
    await engine.publish(tmp_path / "crm.tapp")
    served = Served(engine, tmp_path / "key.jwk", foreign=ForeignTokens(Issuers(Outbound(LOOPBACK), clock=lambda: now[0])))
    public = [key.as_dict(private=False) for key in (RSA, EC, ED, PINNED, SHORT, PAIR)]
    issuer, other = Issuer(keys=[*public, OCT.as_dict(private=True)]), Issuer(keys=[FOREIGN.as_dict(private=False)])
    app = engine_app(lambda request: served, Uploads(tmp_path / "incoming"))
    async with serving(issuer.app()) as first, serving(other.app()) as second, serving(app) as url:
        issuer.url, other.url = first, second
        providers = [
            await engine.add_identity_provider(
                IdentityProviderSettings(name, at, CLIENT, auto_provision=True, default_roles={"crm": "reader"}), Password()
            )
            for name, at in (("first", first), ("second", second))
        ]
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield World(client, engine, issuer, other, providers, later)
    await engine.close()


def _claims(world: World, **changes: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {"iss": world.issuer.url, "aud": CLIENT, "sub": "ada", "iat": now, "nbf": now, "exp": now + 300, **changes}
    return {name: value for name, value in claims.items() if value is not ...}


def _token(world: World, key: Any = RSA, header: Mapping[str, Any] | None = None, **changes: Any) -> str:
    head = {"alg": "RS256", "kid": key.kid, "typ": "JWT", **(header or {})}
    head = {name: value for name, value in head.items() if value is not ...}
    return _signed(head, orjson.dumps(_claims(world, **changes)), key)


def _signed(head: Mapping[str, Any], payload: bytes, key: Any) -> str:
    """Signs whatever it is given: the headers may be those that a library refuses to write."""
    first = f"{_b64(orjson.dumps(head))}.{_b64(payload)}"
    algorithm = jws.JWSRegistry.algorithms["RS256" if head.get("alg") not in ALGORITHMS else head["alg"]]
    return f"{first}.{_b64(algorithm.sign(first.encode(), key))}"


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _hmac_of_public_key(world: World, secret: bytes) -> str:
    """By hand: libraries refuse to do this."""
    first = f"{_b64(orjson.dumps({'alg': 'HS256', 'kid': 'rsa'}))}.{_b64(orjson.dumps(_claims(world)))}"
    return f"{first}.{_b64(hmac.digest(secret, first.encode(), 'sha256'))}"


DEEP = _b64(b'{"a":' + b"[" * 3000)
GOOD: dict[str, Callable[[World], str]] = {
    "RS256": lambda world: _token(world),
    "PS256": lambda world: _token(world, header={"alg": "PS256"}),
    "ES256": lambda world: _token(world, EC, {"alg": "ES256"}),
    "EdDSA": lambda world: _token(world, ED, {"alg": "EdDSA"}),
    "an access token": lambda world: _token(world, header={"typ": "at+jwt"}),
    "one of a list of audiences, given to us": lambda world: _token(world, aud=[CLIENT, "other"], azp=CLIENT),
    "within the leeway": lambda world: _token(world, exp=int(time.time()) - 10, nbf=int(time.time()) + 10),
}
FORGED: dict[str, Callable[[World], str]] = {
    "no algorithm": lambda world: f"{_b64(orjson.dumps({'alg': 'none', 'kid': 'rsa'}))}.{_b64(orjson.dumps(_claims(world)))}.",
    "None as the algorithm": lambda w: f"{_b64(orjson.dumps({'alg': 'None', 'kid': 'rsa'}))}.{_b64(orjson.dumps(_claims(w)))}.",
    "no algorithm, signed": lambda world: _token(world, header={"alg": "none "}),
    "no signature": lambda world: _token(world).rpartition(".")[0] + ".",
    "a signature cut short": lambda world: _token(world)[:-8],
    "another's signature": lambda world: _token(world).rpartition(".")[0] + "." + _token(world, sub="bob").rpartition(".")[2],
    "an HMAC of the public key as PEM": lambda world: _hmac_of_public_key(world, RSA.as_pem(private=False)),
    "an HMAC of the public key as JWK": lambda world: _hmac_of_public_key(world, orjson.dumps(RSA.as_dict(private=False))),
    "an HMAC by a published symmetric key": lambda world: _token(world, OCT, {"alg": "HS256"}),
    "an algorithm that its key is not for": lambda world: _token(world, PINNED, {"alg": "PS256"}),
    "an algorithm of another key type": lambda world: _token(world, RSA, {"alg": "RS256", "kid": "ec"}),
    "an algorithm in lower case": lambda world: _token(world, header={"alg": "rs256"}),
    "an algorithm that is no text": lambda world: _token(world, header={"alg": 256}),
    "an algorithm that is missing": lambda world: _token(world, header={"alg": ...}),
    "a key for encryption": lambda world: _token(world, PAIR),
    "a key too short": lambda world: _token(world, SHORT),
    "the other issuer's key of the same id": lambda world: _token(world, FOREIGN),
    "the other issuer's name, our key": lambda world: _token(world, RSA, iss=world.other.url),
    "an unknown key": lambda world: _token(world, header={"kid": "nobody's"}),
    "no key's name among several": lambda world: _token(world, header={"kid": ...}),
    "a key's name that is a path": lambda world: _token(world, header={"kid": "../../../../dev/null"}),
    "a key's name that is SQL": lambda world: _token(world, header={"kid": "' UNION SELECT 'x"}),
    "a key's name that is a number": lambda world: _token(world, header={"kid": 1}),
    "a key's name that is a list": lambda world: _token(world, header={"kid": ["rsa"]}),
    "a key in its header": lambda world: _token(world, FOREIGN, {"jwk": FOREIGN.as_dict(private=False)}),
    "an address of keys": lambda world: _token(world, FOREIGN, {"jku": f"{world.other.url}/jwks"}),
    "an address of certificates": lambda world: _token(world, FOREIGN, {"x5u": f"{world.other.url}/x5u"}),
    "a certificate in its header": lambda world: _token(world, FOREIGN, {"x5c": ["MIIB"]}),
    "an extension that is critical": lambda world: _token(world, header={"crit": ["exp"], "exp": 1}),
    "an unencoded payload": lambda world: _token(world, header={"b64": False, "crit": ["b64"]}),
    "compression": lambda world: _token(world, header={"zip": "DEF"}),
    "another type": lambda world: _token(world, header={"typ": "logout+jwt"}),
    "a type that is no text": lambda world: _token(world, header={"typ": 5}),
    "another audience": lambda world: _token(world, aud="other"),
    "no audience": lambda world: _token(world, aud=...),
    "an empty audience": lambda world: _token(world, aud=[]),
    "an audience that begins alike": lambda world: _token(world, aud=f"{CLIENT}-2"),
    "an audience of numbers": lambda world: _token(world, aud=[1]),
    "several audiences, given to nobody": lambda world: _token(world, aud=[CLIENT, "other"]),
    "given to another party": lambda world: _token(world, azp="other"),
    "another issuer": lambda world: _token(world, iss="https://issuer.example"),
    "an issuer with a slash more": lambda world: _token(world, iss=f"{world.issuer.url}/"),
    "an issuer in a list": lambda world: _token(world, iss=[world.issuer.url]),
    "no issuer": lambda world: _token(world, iss=...),
    "the engine's own issuer": lambda world: _token(world, iss="tenantry-engine", aud="engine:"),
    "the platform's issuer": lambda world: _token(world, iss="tenantry", aud="engine:"),
    "expired": lambda world: _token(world, exp=int(time.time()) - 60),
    "no expiry": lambda world: _token(world, exp=...),
    "an expiry that is text": lambda world: _token(world, exp="tomorrow"),
    "an expiry that is null": lambda world: _token(world, exp=None),
    "not valid yet": lambda world: _token(world, nbf=int(time.time()) + 90),
    "issued in the future": lambda world: _token(world, iat=int(time.time()) + 90),
    "no subject": lambda world: _token(world, sub=...),
    "an empty subject": lambda world: _token(world, sub=""),
    "a subject that is a number": lambda world: _token(world, sub=1),
    "a subject too long": lambda world: _token(world, sub="a" * 256),
    "a subject with a line end": lambda world: _token(world, sub="ada\nadmin"),
    "claims that are a list": lambda world: _signed({"alg": "RS256", "kid": "rsa"}, b"[]", RSA),
    "claims that are no JSON": lambda world: _signed({"alg": "RS256", "kid": "rsa"}, b"{", RSA),
    "a header nested deep": lambda world: ".".join((DEEP, _b64(orjson.dumps(_claims(world))), "AA")),
    "claims nested deep": lambda world: _signed({"alg": "RS256", "kid": "rsa"}, b'{"iss":' + b"[" * 3000, RSA),
    "two parts": lambda world: _token(world).rpartition(".")[0],
    "four parts": lambda world: _token(world) + ".x",
    "too long": lambda world: _token(world, junk="x" * 20_000),
    "not ASCII": lambda world: "é.é.é",
    "nothing but points": lambda world: "..",
}


async def test_tokens_of_the_issuer_are_accepted(world: World) -> None:
    for name, make in GOOD.items():
        assert await world.status(make(world)) == 200, name


async def test_each_forged_token_is_refused_and_nothing_it_names_is_asked(world: World) -> None:
    assert len(FORGED) >= 60
    assert await world.status(_token(world)) == 200
    world.issuer.asked.clear()
    for name, make in FORGED.items():
        world.other.asked.clear()
        assert await world.status(make(world)) == 401, name
        assert set(world.other.asked) <= {"/.well-known/openid-configuration", "/jwks"}, name
        if name != "the other issuer's name, our key":
            assert world.other.asked == [], name
    assert world.issuer.asked == []


async def test_one_subject_of_two_issuers_is_two_identities(world: World) -> None:
    async def sub(token: str) -> str:
        me = await world.client.get("/api/v1/auth/me", headers={"Authorization": f"Bearer {token}"})
        return str(me.json()["sub"])

    first, second = await sub(_token(world)), await sub(_token(world, FOREIGN, iss=world.other.url))
    assert first != second
    assert (await sub(_token(world, preferred_username="admin")), await sub(_token(world))) == (first, first)


async def test_a_thousand_unknown_keys_make_one_look_in_thirty_seconds(world: World) -> None:
    now = [0.0]
    tokens = ForeignTokens(Issuers(Outbound(LOOPBACK), clock=lambda: now[0]))
    await tokens.verify(_token(world), world.issuer.url, CLIENT)
    _, body, signature = _token(world).split(".")
    for moment in range(4):
        world.issuer.asked.clear()
        forged = [f"{_b64(orjson.dumps({'alg': 'RS256', 'kid': f'{moment}-{n}'}))}.{body}.{signature}" for n in range(250)]
        refused = await asyncio.gather(*(tokens.verify(one, world.issuer.url, CLIENT) for one in forged), return_exceptions=True)
        assert {type(one) for one in refused} == {Unauthorized}
        assert world.issuer.asked.count("/jwks") == (1 if moment else 0)
        now[0] += PAUSE_S


async def test_an_issuer_that_fails_is_asked_once_in_thirty_seconds(world: World) -> None:
    world.issuer.raw = b"not JSON"
    for _ in range(5):
        assert await world.status(_token(world)) == 503
    assert world.issuer.asked == ["/.well-known/openid-configuration"]
    world.issuer.raw = None
    assert await world.status(_token(world)) == 503
    world.later(PAUSE_S)
    assert await world.status(_token(world)) == 200


async def test_keys_outlive_a_failing_issuer_for_an_hour_and_not_longer(world: World) -> None:
    assert await world.status(_token(world)) == 200
    world.issuer.raw = b"not JSON"
    world.later(STALE_S - 1)
    assert await world.status(_token(world)) == 200
    world.later(PAUSE_S)
    assert await world.status(_token(world)) == 503


HOSTILE: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": "https://issuer.example"},
    "an issuer that is a list": {"issuer": ["x"]},
    "no keys' address": {"jwks_uri": None},
    "keys on this host's files": {"jwks_uri": "file:///etc/passwd"},
    "keys at a metadata server": {"jwks_uri": "https://169.254.169.254/latest"},
    "keys at a private address": {"jwks_uri": "https://10.0.0.1/jwks"},
    "keys at IPv6 loopback": {"jwks_uri": "https://[::1]/jwks"},
    "a sign-in page that is a script": {"authorization_endpoint": "javascript:alert(1)"},
    "a sign-in page with a user": {"authorization_endpoint": "https://a@b.example/"},
    "tokens from a private address": {"token_endpoint": "https://192.168.1.1/token"},
    "tokens from nowhere": {"token_endpoint": 5},
}


async def test_a_hostile_discovery_document_makes_the_issuer_unknown(world: World) -> None:
    for name, document in HOSTILE.items():
        world.later(PAUSE_S)
        world.issuer.document = document
        assert await world.status(_token(world)) == 503, name
        assert "/jwks" not in world.issuer.asked, name
        begun = await world.client.get(f"/auth/login/{world.providers[0].id}")
        assert begun.status_code == 503, name


KEY_SETS: dict[str, Any] = {
    "no keys": {},
    "keys that are text": {"keys": "x"},
    "too many keys": {"keys": [RSA.as_dict(private=False)] * 101},
}
LEFT_OUT: dict[str, Any] = {
    "no object": 5,
    "a symmetric key": OCT.as_dict(private=True),
    "a key for encryption": PAIR.as_dict(private=False),
    "a key too short": SHORT.as_dict(private=False),
    "an unknown type": {"kty": "X", "kid": "x"},
    "an unknown curve": {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA", "kid": "x"},
    "a point beside the curve": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "x"},
    "an RSA key of nonsense": {"kty": "RSA", "n": "!", "e": "AQAB", "kid": "x"},
    "an RSA key of even modulus": {"kty": "RSA", "n": _b64(b"\xff" * 255 + b"\xfe"), "e": "AA", "kid": "x"},
    "an algorithm of another type": {**RSA.as_dict(private=False), "alg": "HS256"},
    "a key's name that is no text": {**RSA.as_dict(private=False), "kid": 5},
    "a key to sign with": {**RSA.as_dict(private=False), "key_ops": ["sign"]},
}


def test_a_key_that_may_not_verify_is_left_out_and_the_others_stay() -> None:
    for name, entry in LEFT_OUT.items():
        assert list(keys_of({"keys": [entry, EC.as_dict(private=False)]})) == ["ec"], name
    assert keys_of({"keys": [RSA.as_dict(private=False), FOREIGN.as_dict(private=False)]}) == {}
    for name, document in KEY_SETS.items():
        with pytest.raises(Unreachable):
            keys_of(document)
            pytest.fail(name)


async def test_a_provider_that_changes_its_client_refuses_the_old_tokens(world: World) -> None:
    token = _token(world)
    assert await world.status(token) == 200
    settings = replace(world.providers[0].settings, client_id="another")
    await world.engine.edit_identity_provider(world.providers[0].id, settings, None)
    assert await world.status(token) == 401


async def _callback(world: World, make: Callable[[World, str], str]) -> tuple[httpx.Response, dict[str, str]]:
    """The answer to a callback whose code gives the ID token that is made for its nonce; and what the browser was sent with."""
    begun = await world.client.get(f"/auth/login/{world.providers[0].id}")
    sent = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    world.issuer.id_token = make(world, sent["nonce"])
    return await world.client.get("/auth/callback", params={"state": sent["state"], "code": "c0de"}), sent


async def test_the_code_is_exchanged_with_the_verifier_of_its_challenge_and_the_clients_secret(world: World) -> None:
    answer, sent = await _callback(world, lambda world, nonce: _token(world, nonce=nonce))
    assert answer.status_code == 303
    settings = replace(world.providers[0].settings, client_id="a:b")
    await world.engine.edit_identity_provider(world.providers[0].id, settings, Password(clear="s3cret/+"))
    answer, again = await _callback(world, lambda world, nonce: _token(world, nonce=nonce, aud="a:b"))
    assert answer.status_code == 303
    (public, first), (basic, second) = world.issuer.exchanged
    assert (public, base64.b64decode(basic.removeprefix("Basic "))) == ("", b"a%3Ab:s3cret%2F%2B")
    for query, form in ((sent, first), (again, second)):
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert (_b64(digest), form["code"], form["grant_type"]) == (query["code_challenge"], "c0de", "authorization_code")
        assert form["redirect_uri"] == query["redirect_uri"] and "client_secret" not in form
    assert first["code_verifier"] != second["code_verifier"]
    world.issuer.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    world.later(PAUSE_S * 100)
    await _callback(world, lambda world, nonce: _token(world, nonce=nonce, aud="a:b"))
    header, form = world.issuer.exchanged[-1]
    assert (header, form["client_secret"], form["client_id"]) == ("", "s3cret/+", "a:b")


ID_TOKENS: dict[str, Callable[[World, str], str]] = {
    "another sign-in's nonce": lambda world, nonce: _token(world, nonce="another"),
    "no nonce": lambda world, nonce: _token(world),
    "another audience": lambda world, nonce: _token(world, nonce=nonce, aud="other"),
    "another issuer's": lambda world, nonce: _token(world, FOREIGN, nonce=nonce, iss=world.other.url),
    "expired": lambda world, nonce: _token(world, nonce=nonce, exp=int(time.time()) - 60),
    "no algorithm": lambda world, nonce: (
        f"{_b64(orjson.dumps({'alg': 'none'}))}.{_b64(orjson.dumps(_claims(world, nonce=nonce)))}."
    ),
    "another's key": lambda world, nonce: _token(world, FOREIGN, nonce=nonce),
    "no token": lambda world, nonce: "",
}


async def test_each_forged_id_token_at_the_callback_opens_no_session(world: World) -> None:
    for name, make in ID_TOKENS.items():
        answer, _ = await _callback(world, make)
        assert answer.status_code == 401, name
        assert "tenantry_session" not in world.client.cookies, name
