"""Published documents of issuers, by OpenID Connect Discovery, and their keys; cached, and fetched seldom."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from tenantry.model.verdicts import Halt, Invalid
from tenantry.rest.outbound import Outbound, Unreachable, checked_url

log = structlog.get_logger(__name__)

PAUSE_S = 30.0
"""An issuer is asked for its keys no sooner than this after the last time, whatever came of it."""
FRESH_S = 600.0
STALE_S = 3600.0
"""Keys that could not be looked at again are still believed this long."""
KEPT = 1000
MOST_KEYS = 100
_SHORTEST_RSA_BITS = 2048
_LONGEST_RSA_BITS = 8192
ALGORITHMS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA", "Ed25519"),
}
"""The algorithms for a key of that type and curve. None is symmetric."""

PublicKey = RSAKey | ECKey | OKPKey


@dataclass(frozen=True)
class VerifyingKey:
    """A public key and the algorithms that it may be used with."""

    key: PublicKey
    algorithms: tuple[str, ...]


@dataclass(frozen=True)
class Issuer:
    """An issuer as it describes itself. name: the exact `iss` of its tokens. basic: does its token endpoint take HTTP Basic?

    no_sign_in: why nobody can sign in by it in a browser, or `""`. Issuers of workloads have no pages for people.
    """

    name: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    basic: bool = True
    no_sign_in: str = ""


@dataclass
class _Known:
    issuer: Issuer | None = None
    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    asked: float = float("-inf")
    seen: float = float("-inf")
    failure: str = ""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def key(self, kid: str | None) -> VerifyingKey | None:
        if kid is None:
            return next(iter(self.keys.values())) if len(self.keys) == 1 else None
        return self.keys.get(kid)


class Issuers:
    """Looks issuers up. One for a process: engines that share an issuer share what is known of it."""

    def __init__(self, outbound: Outbound, clock: Callable[[], float] = time.monotonic) -> None:
        self.outbound = outbound
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def issuer(self, url: str) -> Issuer:
        """The issuer at that URL. Raises Invalid, Unreachable."""
        known = await self._looked_at(url)
        if known.issuer is None:
            raise Unreachable(known.failure)
        return known.issuer

    async def key(self, url: str, kid: str | None, again: bool = False) -> VerifyingKey | None:
        """Its key of that id; its only key for None. An unknown one makes it look again, but not within PAUSE_S; so does `again`.

        Raises Invalid, Unreachable.
        """
        known = await self._looked_at(url, again)
        if known.key(kid) is None:
            known = await self._looked_at(url, again=True)
        if known.issuer is None:
            raise Unreachable(known.failure)
        return known.key(kid)

    async def _looked_at(self, url: str, again: bool = False) -> _Known:
        known = self._known.pop(url, None) or _Known()
        self._known[url] = known
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        if self._due(known, again):
            async with known.turn:
                if self._due(known, again):
                    await self._look(url, known)
        if self._clock() - known.seen > STALE_S:
            known.issuer, known.keys = None, {}
        return known

    def _due(self, known: _Known, again: bool) -> bool:
        now = self._clock()
        return now - known.asked >= PAUSE_S and (again or now - known.seen >= FRESH_S)

    async def _look(self, url: str, known: _Known) -> None:
        known.asked = self._clock()
        try:
            issuer = await self._discovered(url)
            known.keys = keys_of(_object(await self._fetched(issuer.jwks_uri, "jwks_uri"), "jwks_uri"))
            known.issuer, known.seen, known.failure = issuer, self._clock(), ""
        except Halt as halt:
            known.failure = halt.verdict.message
            log.warning("issuer.unknown", issuer=url, reason=known.failure)

    async def _discovered(self, url: str) -> Issuer:
        address = f"{url.rstrip('/')}/.well-known/openid-configuration"
        return issuer_of(url, _object(await self._fetched(address, "issuer_url"), "issuer_url"), self.outbound)

    async def _fetched(self, url: str, field: str) -> bytes:
        answer = await self.outbound.get(url, field)
        if answer.status != 200:
            raise Unreachable(f"{field}: answers {answer.status}")
        return answer.body


def issuer_of(url: str, document: Mapping[str, Any], outbound: Outbound) -> Issuer:
    """A discovery document as an Issuer. Raises Unreachable for a wrong name or address of keys, Invalid for a refused URL.

    Only a sign-in in a browser needs the other two addresses: without good ones the issuer still vouches for its tokens.
    """
    name = _text(document, "issuer")
    if name.rstrip("/") != url.rstrip("/"):
        raise Unreachable(f"issuer: the document at {url} is another issuer's")
    jwks_uri = _address(document, "jwks_uri", outbound)
    try:
        authorization = _address(document, "authorization_endpoint", outbound)
        token = _address(document, "token_endpoint", outbound)
    except (Unreachable, Invalid) as halt:
        return Issuer(name, jwks_uri, no_sign_in=halt.verdict.message)
    methods = document.get("token_endpoint_auth_methods_supported")
    return Issuer(name, jwks_uri, authorization, token, basic=not isinstance(methods, list) or "client_secret_basic" in methods)


def _address(document: Mapping[str, Any], field: str, outbound: Outbound) -> str:
    address = _text(document, field)
    checked_url(address, outbound.rules, field)
    return address


def keys_of(document: Mapping[str, Any]) -> dict[str, VerifyingKey]:
    """The keys of a JWKS that may verify signatures, by kid; what else is in it is left out. Raises Unreachable for no JWKS."""
    entries = document.get("keys")
    if not isinstance(entries, list) or len(entries) > MOST_KEYS:
        raise Unreachable(f"jwks_uri: answers no list of at most {MOST_KEYS} keys")
    found: dict[str, VerifyingKey] = {}
    twice: set[str] = set()
    for entry in entries:
        key = _verifying_key(entry)
        if key is not None:
            kid = entry.get("kid", "")
            twice |= {kid} & found.keys()
            found[kid] = key
    return {kid: key for kid, key in found.items() if kid not in twice}


def _verifying_key(entry: Any) -> VerifyingKey | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("kid", ""), str) or entry.get("use", "sig") != "sig":
        return None
    if "verify" not in entry.get("key_ops", ["verify"]):
        return None
    allowed = ALGORITHMS.get((str(entry.get("kty")), "" if entry.get("kty") == "RSA" else str(entry.get("crv"))))
    if allowed is None or entry.get("alg", allowed[0]) not in allowed:
        return None
    # Before it is imported, which warns of each.
    if entry.get("kty") == "RSA" and len(str(entry.get("n"))) * 6 < _SHORTEST_RSA_BITS:
        return None
    public = {name: entry[name] for name in ("kty", "crv", "n", "e", "x", "y") if name in entry}
    try:
        key = JWKRegistry.import_key(public)
        size = key.public_key.key_size if isinstance(key, RSAKey) else _SHORTEST_RSA_BITS
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if not isinstance(key, RSAKey | ECKey | OKPKey) or not _SHORTEST_RSA_BITS <= size <= _LONGEST_RSA_BITS:
        return None
    return VerifyingKey(key, (entry["alg"],) if "alg" in entry else allowed)


def _object(raw: bytes, field: str) -> Mapping[str, Any]:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise Unreachable(f"{field}: answers no JSON object")
    return value


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    if not isinstance(value, str):
        raise Unreachable(f"{field}: is missing in the discovery document")
    return value
