"""Tokens that foreign issuers signed: every check that RFC 8725 asks for."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson
from joserfc import jws, jwt
from joserfc.errors import JoseError

from tenantry.model.verdicts import Unauthorized
from tenantry.oidc.issuers import Issuers, VerifyingKey
from tenantry.rest.outbound import Outbound, Rules

LEEWAY_S = 30
LONGEST_TOKEN = 16 * 1024
LONGEST_SUBJECT = 255
_HEADERS = frozenset({"alg", "kid", "typ", "cty", "x5t", "x5t#S256"})
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "id+jwt"})
Claims = Mapping[str, Any]


@lru_cache(maxsize=256)  # a client sends the same token with each request
def claimed_issuer(token: str) -> str:
    """The `iss` that a token claims, unproven; `""` when it claims none."""
    parts = token.split(".")
    if len(token) > LONGEST_TOKEN or len(parts) != 3:
        return ""
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return ""
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else ""


class ForeignTokens:
    """Verifies tokens of issuers that are trusted."""

    def __init__(self, issuers: Issuers, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.issuers = issuers
        self._now = now

    async def verify(self, token: str, issuer_url: str, audience: str, nonce: str | None = None) -> Claims:
        """The claims of a token of that issuer for that audience. Raises Unauthorized, and Unreachable for an issuer that is.

        nonce: what an ID token must carry. Nothing that the token itself names is ever fetched.
        """
        if not token.isascii() or len(token) > LONGEST_TOKEN or token.count(".") != 2:
            raise Unauthorized("the token is malformed")
        kid, algorithm = _header(token)
        claims = await self._signed(token, issuer_url, kid, algorithm)
        issuer = await self.issuers.issuer(issuer_url)
        try:
            self._rules(issuer.name, audience, nonce).validate(dict(claims))
        except (JoseError, ValueError, TypeError) as error:
            raise _refused(error) from None
        _check_parties(claims, audience)
        return claims

    async def _signed(self, token: str, issuer_url: str, kid: str | None, algorithm: str) -> Claims:
        """The claims that the issuer's key signed. A key without a name may have been replaced: then it is looked at again."""
        key = await self.issuers.key(issuer_url, kid)
        try:
            return _decoded(token, key, algorithm)
        except Unauthorized:
            fresh = await self.issuers.key(issuer_url, kid, again=True) if kid is None else key
            if fresh == key:
                raise
            return _decoded(token, fresh, algorithm)

    def _rules(self, issuer: str, audience: str, nonce: str | None) -> jwt.JWTClaimsRegistry:
        options: dict[str, Any] = {"nonce": {"essential": True, "value": nonce}} if nonce is not None else {}
        return jwt.JWTClaimsRegistry(
            now=int(self._now().timestamp()),
            leeway=LEEWAY_S,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
            sub={"essential": True},
            **options,
        )


def foreign_tokens(rules: Rules | None = None) -> ForeignTokens:
    """A verifier that reaches issuers by these rules; by the strictest where None."""
    return ForeignTokens(Issuers(Outbound(rules)))


def _decoded(token: str, key: VerifyingKey | None, algorithm: str) -> Claims:
    if key is None:
        raise Unauthorized("the token is signed by a key that its issuer does not publish")
    if algorithm not in key.algorithms:
        raise Unauthorized("the token is signed by an algorithm that is not allowed for its key")
    try:
        return jwt.decode(token, key.key, algorithms=list(key.algorithms)).claims
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise _refused(error) from None


def _refused(error: Exception) -> Unauthorized:
    return Unauthorized(f"the token is refused: {getattr(error, 'description', '') or error}")


def _header(token: str) -> tuple[str | None, str]:
    """kid, None for none, and alg. Raises Unauthorized also for headers that we do not know, such as a key of its own."""
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
        raise Unauthorized("the token is malformed") from None
    strange = sorted(set(header) - _HEADERS)
    if strange:
        raise Unauthorized(f"the token has a header that is not accepted: {', '.join(strange)[:100]}")
    kid, algorithm, type_ = header.get("kid"), header.get("alg"), header.get("typ", "JWT")
    if not isinstance(kid, str | None) or not isinstance(algorithm, str):
        raise Unauthorized("the token names its key or its algorithm by no text")
    if not isinstance(type_, str) or type_.lower() not in _TYPES:
        raise Unauthorized("the token has another type")
    return kid, algorithm


def _check_parties(claims: Claims, audience: str) -> None:
    """Raises Unauthorized for a token that was given to another party, or whose subject could not be kept."""
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if several else audience) != audience:
        raise Unauthorized("the token was given to another party")
    subject = claims["sub"]
    if not isinstance(subject, str) or not 1 <= len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        raise Unauthorized("the token's subject is not a text of at most 255 characters")
