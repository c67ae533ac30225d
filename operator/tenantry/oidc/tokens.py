"""Tokens that foreign issuers signed: every check that RFC 8725 asks for."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Mapping
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

    async def verify(
        self, token: str, issuer_url: str, audience: str, nonce: str | None = None, parties: Collection[str] = ()
    ) -> Claims:
        """The claims of a token of that issuer for that audience. Raises Unauthorized, and Unreachable for an issuer that is.

        nonce: what an ID token must carry. parties: the only clients whose access tokens are taken; any where it is empty.
        Nothing that the token itself names is ever fetched.
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
        _check_party(claims, audience, nonce is not None, parties)
        _check_subject(claims)
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
        return jwt.decode(token, key.key, registry=_tolerant(key.algorithms)).claims
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise _refused(error) from None


def _tolerant(algorithms: Collection[str]) -> jws.JWSRegistry:
    """RFC 7515, section 4: members of a header that are not understood are ignored. `crit` is refused by `_header`."""
    registry = jws.JWSRegistry(algorithms=list(algorithms), strict_check_header=False)
    registry.max_header_length = LONGEST_TOKEN  # a chain of certificates takes more than the library's 512 bytes
    return registry


def _refused(error: Exception) -> Unauthorized:
    return Unauthorized(f"the token is refused: {getattr(error, 'description', '') or error}")


def _header(token: str) -> tuple[str | None, str]:
    """kid, None for none, and alg. Raises Unauthorized also for a critical member, because we understand none.

    A key in the header, or the address of one, is ignored like every other member.
    """
    try:
        header = jws.extract_compact(token.encode(), registry=_tolerant(())).headers()
    except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
        raise Unauthorized("the token is malformed") from None
    if "crit" in header:
        raise Unauthorized("the token has a critical header, and none is understood")
    kid, algorithm, type_ = header.get("kid"), header.get("alg"), header.get("typ", "JWT")
    if not isinstance(kid, str | None) or not isinstance(algorithm, str):
        raise Unauthorized("the token names its key or its algorithm by no text")
    if not isinstance(type_, str) or type_.lower() not in _TYPES:
        raise Unauthorized("the token has another type")
    return kid, algorithm


def _check_party(claims: Claims, audience: str, of_id: bool, parties: Collection[str]) -> None:
    """Raises Unauthorized for a token that was given to another party than it may be.

    An ID token is the client's that signs people in (OpenID Connect Core, 3.1.3.7). An access token is a client's of the issuer's
    choice, such as a portal's: its audience says whom it is for. Only among several audiences must it name us.
    """
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    party = claims.get("azp")
    if parties and not of_id:
        accepted = party in parties
    elif several:
        accepted = party == audience
    else:
        accepted = not of_id or party in (None, audience)
    if not accepted:
        raise Unauthorized("the token was given to another party")


def _check_subject(claims: Claims) -> None:
    subject = claims["sub"]
    if not isinstance(subject, str) or not 1 <= len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        raise Unauthorized("the token's subject is not a text of at most 255 characters")
