"""Tokens as a provider would sign them, and forged ones; and issuers that publish whatever a test wants."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, Protocol
from urllib.parse import parse_qsl

import orjson
import pytest
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tenantry.rest.outbound import Rules

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


class Trusting(Protocol):
    """The parties that trust `issuer` and, where there are two, `other`."""

    issuer: Issuer
    other: Issuer

    @property
    def claims(self) -> Mapping[str, Any]: ...


def published() -> list[dict[str, Any]]:
    """The keys that the trusted issuer publishes: good ones, and some that nothing may be verified with."""
    return [*(key.as_dict(private=False) for key in (RSA, EC, ED, PINNED, SHORT, PAIR)), OCT.as_dict(private=True)]


def claims_of(world: Trusting, **changes: Any) -> dict[str, Any]:
    """The claims of a good token; changed, and left out where `...`."""
    now = int(time.time())
    claims = {
        "iss": world.issuer.url,
        "aud": CLIENT,
        "sub": "ada",
        "iat": now,
        "nbf": now,
        "exp": now + 300,
        **world.claims,
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not ...}


def token_of(world: Trusting, key: Any = RSA, header: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """A token of the issuer; its header and claims are changed, and left out where `...`."""
    head = {"alg": "RS256", "kid": key.kid, "typ": "JWT", **(header or {})}
    head = {name: value for name, value in head.items() if value is not ...}
    return signed(head, orjson.dumps(claims_of(world, **changes)), key)


def signed(head: Mapping[str, Any], payload: bytes, key: Any) -> str:
    """Signs whatever it is given: the headers may be those that a library refuses to write."""
    first = f"{b64(orjson.dumps(head))}.{b64(payload)}"
    algorithm = jws.JWSRegistry.algorithms["RS256" if head.get("alg") not in ALGORITHMS else head["alg"]]
    return f"{first}.{b64(algorithm.sign(first.encode(), key))}"


def halved(claims: Mapping[str, Any]) -> bytes:
    """JSON with half of a surrogate pair in a name and in a value."""
    return json.dumps({**claims, "\ud800": "\udfff"}).encode()


def b64(raw: bytes) -> str:
    """Base64 as tokens have it."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _hmac_of_public_key(world: Trusting, secret: bytes) -> str:
    """By hand: libraries refuse to do this."""
    first = f"{b64(orjson.dumps({'alg': 'HS256', 'kid': 'rsa'}))}.{b64(orjson.dumps(claims_of(world)))}"
    return f"{first}.{b64(hmac.digest(secret, first.encode(), 'sha256'))}"


DEEP = b64(b'{"a":' + b"[" * 3000)
GOOD: dict[str, Callable[[Trusting], str]] = {
    "RS256": lambda world: token_of(world),
    "PS256": lambda world: token_of(world, header={"alg": "PS256"}),
    "ES256": lambda world: token_of(world, EC, {"alg": "ES256"}),
    "EdDSA": lambda world: token_of(world, ED, {"alg": "EdDSA"}),
    "an access token": lambda world: token_of(world, header={"typ": "at+jwt"}),
    "one of a list of audiences, given to us": lambda world: token_of(world, aud=[CLIENT, "other"], azp=CLIENT),
    "given to another client of the issuer": lambda world: token_of(world, azp="other"),
    "an unknown header": lambda world: token_of(world, header={"tenantry": 1}),
    "an unknown header of compression": lambda world: token_of(world, header={"zip": "DEF"}),
    "an unknown header of encryption": lambda world: token_of(world, header={"enc": "A256GCM"}),
    "the address of other keys in its header": lambda world: token_of(world, header={"jku": f"{world.other.url}/jwks"}),
    "the address of certificates in its header": lambda world: token_of(world, header={"x5u": f"{world.other.url}/x5u"}),
    "another key in its header": lambda world: token_of(world, header={"jwk": FOREIGN.as_dict(private=False)}),
    "certificates in its header": lambda world: token_of(world, header={"x5c": ["MIIB"]}),
    "within the leeway": lambda world: token_of(world, exp=int(time.time()) - 10, nbf=int(time.time()) + 10),
}
FORGED: dict[str, Callable[[Trusting], str]] = {
    "no algorithm": lambda world: f"{b64(orjson.dumps({'alg': 'none', 'kid': 'rsa'}))}.{b64(orjson.dumps(claims_of(world)))}.",
    "None as the algorithm": lambda w: f"{b64(orjson.dumps({'alg': 'None', 'kid': 'rsa'}))}.{b64(orjson.dumps(claims_of(w)))}.",
    "no algorithm, signed": lambda world: token_of(world, header={"alg": "none "}),
    "no signature": lambda world: token_of(world).rpartition(".")[0] + ".",
    "a signature cut short": lambda world: token_of(world)[:-8],
    "another's signature": lambda world: token_of(world).rpartition(".")[0] + "." + token_of(world, sub="bob").rpartition(".")[2],
    "an HMAC of the public key as PEM": lambda world: _hmac_of_public_key(world, RSA.as_pem(private=False)),
    "an HMAC of the public key as JWK": lambda world: _hmac_of_public_key(world, orjson.dumps(RSA.as_dict(private=False))),
    "an HMAC by a published symmetric key": lambda world: token_of(world, OCT, {"alg": "HS256"}),
    "an algorithm that its key is not for": lambda world: token_of(world, PINNED, {"alg": "PS256"}),
    "an algorithm of another key type": lambda world: token_of(world, RSA, {"alg": "RS256", "kid": "ec"}),
    "an algorithm in lower case": lambda world: token_of(world, header={"alg": "rs256"}),
    "an algorithm that is no text": lambda world: token_of(world, header={"alg": 256}),
    "an algorithm that is missing": lambda world: token_of(world, header={"alg": ...}),
    "a key for encryption": lambda world: token_of(world, PAIR),
    "a key too short": lambda world: token_of(world, SHORT),
    "the other issuer's key of the same id": lambda world: token_of(world, FOREIGN),
    "the other issuer's name, our key": lambda world: token_of(world, RSA, iss=world.other.url),
    "an unknown key": lambda world: token_of(world, header={"kid": "nobody's"}),
    "no key's name among several": lambda world: token_of(world, header={"kid": ...}),
    "a key's name that is a path": lambda world: token_of(world, header={"kid": "../../../../dev/null"}),
    "a key's name that is SQL": lambda world: token_of(world, header={"kid": "' UNION SELECT 'x"}),
    "a key's name that is a number": lambda world: token_of(world, header={"kid": 1}),
    "a key's name that is a list": lambda world: token_of(world, header={"kid": ["rsa"]}),
    "a key in its header": lambda world: token_of(world, FOREIGN, {"jwk": FOREIGN.as_dict(private=False)}),
    "an address of keys": lambda world: token_of(world, FOREIGN, {"jku": f"{world.other.url}/jwks"}),
    "an address of certificates": lambda world: token_of(world, FOREIGN, {"x5u": f"{world.other.url}/x5u"}),
    "a certificate in its header": lambda world: token_of(world, FOREIGN, {"x5c": ["MIIB"]}),
    "an extension that is critical": lambda world: token_of(world, header={"crit": ["exp"], "exp": 1}),
    "an unencoded payload": lambda world: token_of(world, header={"b64": False, "crit": ["b64"]}),
    "another type": lambda world: token_of(world, header={"typ": "logout+jwt"}),
    "a type that is no text": lambda world: token_of(world, header={"typ": 5}),
    "another audience": lambda world: token_of(world, aud="other"),
    "no audience": lambda world: token_of(world, aud=...),
    "an empty audience": lambda world: token_of(world, aud=[]),
    "an audience that begins alike": lambda world: token_of(world, aud=f"{CLIENT}-2"),
    "an audience of numbers": lambda world: token_of(world, aud=[1]),
    "several audiences, given to another party": lambda world: token_of(world, aud=[CLIENT, "other"], azp="other"),
    "a critical header that is not understood": lambda world: token_of(world, header={"crit": ["tenantry"], "tenantry": 1}),
    "no critical header, but its list": lambda world: token_of(world, header={"crit": []}),
    "several audiences, given to nobody": lambda world: token_of(world, aud=[CLIENT, "other"]),
    "another issuer": lambda world: token_of(world, iss="https://issuer.example"),
    "an issuer with a slash more": lambda world: token_of(world, iss=f"{world.issuer.url}/"),
    "an issuer in a list": lambda world: token_of(world, iss=[world.issuer.url]),
    "no issuer": lambda world: token_of(world, iss=...),
    "the engine's own issuer": lambda world: token_of(world, iss="tenantry-engine", aud="engine:"),
    "the platform's issuer": lambda world: token_of(world, iss="tenantry", aud="engine:"),
    "expired": lambda world: token_of(world, exp=int(time.time()) - 60),
    "no expiry": lambda world: token_of(world, exp=...),
    "an expiry that is text": lambda world: token_of(world, exp="tomorrow"),
    "an expiry that is null": lambda world: token_of(world, exp=None),
    "not valid yet": lambda world: token_of(world, nbf=int(time.time()) + 90),
    "issued in the future": lambda world: token_of(world, iat=int(time.time()) + 90),
    "no subject": lambda world: token_of(world, sub=...),
    "an empty subject": lambda world: token_of(world, sub=""),
    "a subject that is a number": lambda world: token_of(world, sub=1),
    "a subject too long": lambda world: token_of(world, sub="a" * 256),
    "a subject with a line end": lambda world: token_of(world, sub="ada\nadmin"),
    "half a character in a claim": lambda world: signed({"alg": "RS256", "kid": "rsa"}, halved(claims_of(world)), RSA),
    "half a character as a header": lambda world: f"{b64(halved({'alg': 'RS256'}))}.{b64(orjson.dumps(claims_of(world)))}.AA",
    "claims that are a list": lambda world: signed({"alg": "RS256", "kid": "rsa"}, b"[]", RSA),
    "claims that are no JSON": lambda world: signed({"alg": "RS256", "kid": "rsa"}, b"{", RSA),
    "a header nested deep": lambda world: ".".join((DEEP, b64(orjson.dumps(claims_of(world))), "AA")),
    "claims nested deep": lambda world: signed({"alg": "RS256", "kid": "rsa"}, b'{"iss":' + b"[" * 3000, RSA),
    "two parts": lambda world: token_of(world).rpartition(".")[0],
    "four parts": lambda world: token_of(world) + ".x",
    "too long": lambda world: token_of(world, junk="x" * 20_000),
    "not ASCII": lambda world: "é.é.é",
    "nothing but points": lambda world: "..",
    "a payload changed after it was signed": lambda world: _altered(token_of(world), 1, claims_of(world, sub="admin")),
    "a header changed after it was signed": lambda world: _altered(token_of(world), 0, {"alg": "PS256", "kid": "rsa"}),
    "a signature of zeros": lambda world: token_of(world).rpartition(".")[0] + "." + b64(bytes(256)),
    "an ECDSA signature of zeros": lambda world: token_of(world, EC, {"alg": "ES256"}).rpartition(".")[0] + "." + b64(bytes(64)),
    "an ECDSA signature in DER": lambda world: (
        token_of(world, EC, {"alg": "ES256"}).rpartition(".")[0] + "." + b64(b"0\x06" * 35)
    ),
    "an EdDSA signature of zeros": lambda world: token_of(world, ED, {"alg": "EdDSA"}).rpartition(".")[0] + "." + b64(bytes(64)),
    "a signature with characters beside base64": lambda world: token_of(world)[:-4] + "!!!!",
    "blanks around": lambda world: token_of(world).replace(".", " . "),
    "an HMAC by the client's id": lambda world: _hmac_of_public_key(world, CLIENT.encode()),
    "an HMAC by nothing": lambda world: _hmac_of_public_key(world, b""),
    "an EC key's algorithm by RSA": lambda world: _by_rsa({"alg": "ES256", "kid": "ec"}, world),
    "an EdDSA algorithm by RSA": lambda world: _by_rsa({"alg": "EdDSA", "kid": "ed"}, world),
    "a key's name with NUL": lambda world: token_of(world, header={"kid": "rsa\0"}),
    "a key's name that is an object": lambda world: token_of(world, header={"kid": {"a": 1}}),
    "a key's name that is an address": lambda world: token_of(world, header={"kid": f"{world.other.url}/jwks"}),
    "expired, in milliseconds": lambda world: token_of(world, exp=-1),
    "an expiry that is a list": lambda world: token_of(world, exp=[int(time.time()) + 60]),
    "an audience that is an object": lambda world: token_of(world, aud={CLIENT: True}),
    "an audience of other letters": lambda world: token_of(world, aud=CLIENT.upper()),
    "an issuer in capitals": lambda world: token_of(world, iss=world.issuer.url.upper()),
    "an issuer with a user": lambda world: token_of(world, iss=world.issuer.url.replace("//", "//a@")),
    "a subject that is a list": lambda world: token_of(world, sub=["ada"]),
}


def _by_rsa(header: Mapping[str, Any], world: Trusting) -> str:
    """Signed by another algorithm than it says."""
    first = f"{b64(orjson.dumps(header))}.{b64(orjson.dumps(claims_of(world)))}"
    return f"{first}.{b64(jws.JWSRegistry.algorithms['RS256'].sign(first.encode(), RSA))}"


def _altered(token: str, part: int, value: Mapping[str, Any]) -> str:
    parts = token.split(".")
    parts[part] = b64(orjson.dumps(value))
    return ".".join(parts)
