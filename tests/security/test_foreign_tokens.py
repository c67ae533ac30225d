"""Forged tokens at an engine that trusts two issuers: 401 each, and nothing that a token names is ever asked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import orjson
import pytest

from tenantry.model.facts import Password
from tenantry.model.verdicts import Unauthorized
from tenantry.oidc.issuers import PAUSE_S, STALE_S, Issuers, keys_of
from tenantry.oidc.tokens import ForeignTokens
from tenantry.rest.outbound import Outbound, Unreachable
from tests.campaigns.tried import Tried
from tests.security.forging import (
    CLIENT,
    EC,
    FOREIGN,
    FORGED,
    GOOD,
    LOOPBACK,
    OCT,
    PAIR,
    RSA,
    SHORT,
    b64,
    claims_of,
    token_of,
)
from tests.support.token_world import World, world

__all__ = ["world"]


@pytest.mark.slow
async def test_tokens_of_the_issuer_are_accepted(world: World) -> None:
    for name, make in GOOD.items():
        assert await world.status(make(world)) == 200, name
    assert world.other.asked == [], "what a header names is not asked"


@pytest.mark.slow
async def test_each_forged_token_is_refused_and_nothing_it_names_is_asked(world: World, tried: Tried) -> None:
    assert len(FORGED) >= 80
    assert await world.status(token_of(world)) == 200
    world.issuer.asked.clear()
    for name, make in FORGED.items():
        world.other.asked.clear()
        assert await world.status(make(world)) == 401, name
        assert set(world.other.asked) <= {"/.well-known/openid-configuration", "/jwks"}, name
        if name != "the other issuer's name, our key":
            assert world.other.asked == [], name
        tried()
    assert world.issuer.asked == []


@pytest.mark.slow
async def test_one_subject_of_two_issuers_is_two_identities(world: World, tried: Tried) -> None:
    async def sub(token: str) -> str:
        me = await world.client.get("/api/v1/auth/me", headers={"Authorization": f"Bearer {token}"})
        return str(me.json()["sub"])

    first, second = await sub(token_of(world)), await sub(token_of(world, FOREIGN, iss=world.other.url))
    assert first != second
    assert (await sub(token_of(world, preferred_username="admin")), await sub(token_of(world))) == (first, first)
    tried(2)


@pytest.mark.slow
async def test_a_thousand_unknown_keys_make_one_look_in_thirty_seconds(world: World, tried: Tried) -> None:
    now = [0.0]
    tokens = ForeignTokens(Issuers(Outbound(LOOPBACK), clock=lambda: now[0]))
    await tokens.verify(token_of(world), world.issuer.url, CLIENT)
    _, body, signature = token_of(world).split(".")
    for moment in range(4):
        world.issuer.asked.clear()
        forged = [f"{b64(orjson.dumps({'alg': 'RS256', 'kid': f'{moment}-{n}'}))}.{body}.{signature}" for n in range(250)]
        refused = await asyncio.gather(*(tokens.verify(one, world.issuer.url, CLIENT) for one in forged), return_exceptions=True)
        assert {type(one) for one in refused} == {Unauthorized}
        assert world.issuer.asked.count("/jwks") == (1 if moment else 0)
        tried(len(forged))
        now[0] += PAUSE_S


@pytest.mark.slow
async def test_an_issuer_that_fails_is_asked_once_in_thirty_seconds(world: World) -> None:
    world.issuer.raw = b"not JSON"
    for _ in range(5):
        assert await world.status(token_of(world)) == 503
    assert world.issuer.asked == ["/.well-known/openid-configuration"]
    world.issuer.raw = None
    assert await world.status(token_of(world)) == 503
    world.later(PAUSE_S)
    assert await world.status(token_of(world)) == 200


@pytest.mark.slow
async def test_keys_outlive_a_failing_issuer_for_an_hour_and_not_longer(world: World) -> None:
    assert await world.status(token_of(world)) == 200
    world.issuer.raw = b"not JSON"
    world.later(STALE_S - 1)
    assert await world.status(token_of(world)) == 200
    world.later(PAUSE_S)
    assert await world.status(token_of(world)) == 503


HOSTILE: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": "https://issuer.example"},
    "an issuer that is a list": {"issuer": ["x"]},
    "no keys' address": {"jwks_uri": None},
    "keys on this host's files": {"jwks_uri": "file:///etc/passwd"},
    "keys at a metadata server": {"jwks_uri": "https://169.254.169.254/latest"},
    "keys at a private address": {"jwks_uri": "https://10.0.0.1/jwks"},
    "keys at IPv6 loopback": {"jwks_uri": "https://[::1]/jwks"},
}
NO_SIGN_IN: dict[str, dict[str, Any]] = {
    "no pages for people": {"authorization_endpoint": None, "token_endpoint": None},
    "a cluster's words": {"authorization_endpoint": "urn:kubernetes:programmatic_authorization", "token_endpoint": None},
    "a sign-in page that is a script": {"authorization_endpoint": "javascript:alert(1)"},
    "a sign-in page with a user": {"authorization_endpoint": "https://a@b.example/"},
    "tokens from a private address": {"token_endpoint": "https://192.168.1.1/token"},
    "tokens from nowhere": {"token_endpoint": 5},
}
"""Discovery documents of issuers that vouch for tokens and sign nobody in, such as those of clusters and CI systems."""


@pytest.mark.slow
async def test_a_hostile_discovery_document_makes_the_issuer_unknown(world: World, tried: Tried) -> None:
    for name, document in HOSTILE.items():
        world.later(PAUSE_S)
        world.issuer.document = document
        assert await world.status(token_of(world)) == 503, name
        assert "/jwks" not in world.issuer.asked, name
        begun = await world.client.get(f"/auth/login/{world.providers[0].id}")
        assert begun.status_code == 503, name
        tried()


@pytest.mark.slow
async def test_an_issuer_without_a_sign_in_still_vouches_for_its_tokens(world: World, tried: Tried) -> None:
    for name, document in NO_SIGN_IN.items():
        world.later(PAUSE_S * 100)
        world.issuer.document = document
        assert await world.status(token_of(world)) == 200, name
        begun = await world.client.get(f"/auth/login/{world.providers[0].id}")
        assert begun.status_code == 400, name
        assert "signs nobody in by a browser, it only vouches for tokens: " in begun.json()["error"]
        assert next(field for field in ("authorization_endpoint", "token_endpoint") if field in document) in begun.json()["error"]
        tried()


PARTIES: list[tuple[dict[str, Any], tuple[str, ...], bool, bool]] = [
    ({}, (), False, True),
    ({"azp": "portal"}, (), False, True),
    ({"azp": "portal"}, ("portal",), False, True),
    ({"azp": "other"}, ("portal",), False, False),
    ({}, ("portal",), False, False),
    ({"aud": [CLIENT, "api"], "azp": CLIENT}, (), False, True),
    ({"aud": [CLIENT, "api"], "azp": "portal"}, (), False, False),
    ({"aud": [CLIENT, "api"], "azp": "portal"}, ("portal",), False, True),
    ({"aud": [CLIENT, "api"]}, (), False, False),
    ({}, (), True, True),
    ({"azp": CLIENT}, ("portal",), True, True),
    ({"azp": "portal"}, (), True, False),
    ({"azp": "portal"}, ("portal",), True, False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "parties", "of_id", "accepted"), PARTIES)
async def test_a_token_counts_for_the_parties_it_may_be_given_to(
    world: World, changes: dict[str, Any], parties: tuple[str, ...], of_id: bool, accepted: bool
) -> None:
    tokens = ForeignTokens(Issuers(Outbound(LOOPBACK)))
    token = token_of(world, nonce="n", **changes)
    verified = tokens.verify(token, world.issuer.url, CLIENT, "n" if of_id else None, parties)
    if accepted:
        assert (await verified)["sub"] == "ada"
    else:
        with pytest.raises(Unauthorized, match="given to another party"):
            await verified


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
    "an RSA key of even modulus": {"kty": "RSA", "n": b64(b"\xff" * 255 + b"\xfe"), "e": "AA", "kid": "x"},
    "an algorithm of another type": {**RSA.as_dict(private=False), "alg": "HS256"},
    "a key's name that is no text": {**RSA.as_dict(private=False), "kid": 5},
    "a key to sign with": {**RSA.as_dict(private=False), "key_ops": ["sign"]},
}


def test_a_key_that_may_not_verify_is_left_out_and_the_others_stay(tried: Tried) -> None:
    for name, entry in LEFT_OUT.items():
        assert list(keys_of({"keys": [entry, EC.as_dict(private=False)]})) == ["ec"], name
    assert keys_of({"keys": [RSA.as_dict(private=False), FOREIGN.as_dict(private=False)]}) == {}
    for name, document in KEY_SETS.items():
        with pytest.raises(Unreachable):
            keys_of(document)
            pytest.fail(name)
    tried(len(LEFT_OUT) + len(KEY_SETS))


@pytest.mark.slow
async def test_a_provider_that_changes_its_client_refuses_the_old_tokens(world: World) -> None:
    token = token_of(world)
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


@pytest.mark.slow
async def test_the_code_is_exchanged_with_the_verifier_of_its_challenge_and_the_clients_secret(world: World) -> None:
    answer, sent = await _callback(world, lambda world, nonce: token_of(world, nonce=nonce))
    assert answer.status_code == 303
    settings = replace(world.providers[0].settings, client_id="a:b")
    await world.engine.edit_identity_provider(world.providers[0].id, settings, Password(clear="s3cret/+"))
    answer, again = await _callback(world, lambda world, nonce: token_of(world, nonce=nonce, aud="a:b"))
    assert answer.status_code == 303
    (public, first), (basic, second) = world.issuer.exchanged
    assert (public, base64.b64decode(basic.removeprefix("Basic "))) == ("", b"a%3Ab:s3cret%2F%2B")
    for query, form in ((sent, first), (again, second)):
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert (b64(digest), form["code"], form["grant_type"]) == (query["code_challenge"], "c0de", "authorization_code")
        assert form["redirect_uri"] == query["redirect_uri"] and "client_secret" not in form
    assert first["code_verifier"] != second["code_verifier"]
    world.issuer.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    world.later(PAUSE_S * 100)
    await _callback(world, lambda world, nonce: token_of(world, nonce=nonce, aud="a:b"))
    header, form = world.issuer.exchanged[-1]
    assert (header, form["client_secret"], form["client_id"]) == ("", "s3cret/+", "a:b")


ID_TOKENS: dict[str, Callable[[World, str], str]] = {
    "another sign-in's nonce": lambda world, nonce: token_of(world, nonce="another"),
    "no nonce": lambda world, nonce: token_of(world),
    "another audience": lambda world, nonce: token_of(world, nonce=nonce, aud="other"),
    "another issuer's": lambda world, nonce: token_of(world, FOREIGN, nonce=nonce, iss=world.other.url),
    "expired": lambda world, nonce: token_of(world, nonce=nonce, exp=int(time.time()) - 60),
    "no algorithm": lambda world, nonce: (
        f"{b64(orjson.dumps({'alg': 'none'}))}.{b64(orjson.dumps(claims_of(world, nonce=nonce)))}."
    ),
    "another's key": lambda world, nonce: token_of(world, FOREIGN, nonce=nonce),
    "no token": lambda world, nonce: "",
}


@pytest.mark.slow
async def test_each_forged_id_token_at_the_callback_opens_no_session(world: World, tried: Tried) -> None:
    for name, make in ID_TOKENS.items():
        answer, _ = await _callback(world, make)
        assert answer.status_code == 401, name
        assert "tenantry_session" not in world.client.cookies, name
        tried()
