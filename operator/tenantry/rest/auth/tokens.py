"""Signing and checking JSON Web Tokens: Ed25519 only, with every claim that matters checked."""

from __future__ import annotations

import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import orjson
from joserfc import jws, jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import OKPKey

from tenantry.model.verdicts import Unauthorized
from tenantry.rest.disk import write_anew

ALGORITHM = "EdDSA"
LEEWAY = timedelta(seconds=30)
LONGEST_TOKEN = 8192
OPERATOR_TTL = timedelta(minutes=5)
"""Of the tokens that the operator sends to engines and pools."""
Claims = Mapping[str, Any]

# RFC 9864 renames EdDSA to Ed25519; the verifiers that people have still know it by its first name.
warnings.filterwarnings("ignore", message="EdDSA is deprecated", category=SecurityWarning)


class TokenSigner(Protocol):
    """Signs tokens of the platform."""

    def sign(self, claims: Claims, ttl: timedelta) -> str:
        """A token with these claims."""


class OperatorTokens:
    """The operator's tokens by audience. Each is sent for half of its time, and forgotten then.

    clock: monotonic, in seconds.
    """

    def __init__(self, signer: TokenSigner, clock: Callable[[], float] = time.monotonic) -> None:
        self._signer = signer
        self._clock = clock
        self._sent: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """Each with its end, which comes first for those at the beginning."""

    def __len__(self) -> int:
        """Return the number of tokens that are kept."""
        return len(self._sent)

    def authorization(self, audience: str) -> str:
        """Return the header of a request to who has that audience, such as an engine."""
        now = self._clock()
        while self._sent and next(iter(self._sent.values()))[0] <= now:
            self._sent.popitem(last=False)
        if audience not in self._sent:
            token = self._signer.sign({"sub": "operator", "aud": audience}, OPERATOR_TTL)
            self._sent[audience] = (now + OPERATOR_TTL.total_seconds() / 2, token)
        return f"Bearer {self._sent[audience][1]}"


def new_key() -> OKPKey:
    """A new key; its kid is its thumbprint."""
    return OKPKey.generate_key("Ed25519", {"use": "sig", "alg": ALGORITHM}, private=True, auto_kid=True)


def read_key(path: Path) -> OKPKey:
    """A private key from its file. Blocks. Raises ValueError naming a file that holds none, FileNotFoundError."""
    try:
        key = OKPKey.import_key(orjson.loads(path.read_bytes()))
    except (JoseError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: holds no key: {error}") from error
    if not key.is_private:
        raise ValueError(f"{path}: holds no private key")
    return key


def write_key(path: Path, key: OKPKey) -> None:
    """Writes a private key atomically, for the owner's eyes alone. Blocks. Raises OSError."""
    write_anew(path, orjson.dumps(key.as_dict(private=True)), durable=True)


def sign(key: OKPKey, claims: Claims, ttl: timedelta, now: datetime | None = None) -> str:
    """A token with these claims (`iss` and `aud` among them) that ends after `ttl`."""
    start = int((now or datetime.now(UTC)).timestamp())
    whole = {**claims, "iat": start, "nbf": start, "exp": start + int(ttl.total_seconds())}
    return jwt.encode({"alg": ALGORITHM, "kid": key.kid}, whole, key, algorithms=[ALGORITHM])


@lru_cache(maxsize=256)  # a client sends the same token with each request
def key_id(token: str) -> str:
    """The `kid` that a token claims. Raises Unauthorized when it is no token, or names none."""
    if len(token) > LONGEST_TOKEN:
        raise Unauthorized("the token is too long")
    try:
        kid = jws.extract_compact(token.encode()).headers().get("kid")
    except (JoseError, ValueError, RecursionError):
        raise Unauthorized("the token is malformed") from None
    if not isinstance(kid, str):
        raise Unauthorized("the token names no key")
    return kid


def verify(token: str, keys: Mapping[str, OKPKey], issuer: str, audience: str, now: datetime | None = None) -> Claims:
    """The claims of a token. Raises Unauthorized unless one of `keys` (by kid) signed it for us and it holds now."""
    key = keys.get(key_id(token))
    if key is None:
        raise Unauthorized("the token is signed by an unknown key")
    moment = int((now or datetime.now(UTC)).timestamp())
    rules = jwt.JWTClaimsRegistry(
        now=moment,
        leeway=int(LEEWAY.total_seconds()),
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": audience},
        exp={"essential": True},
        nbf={"essential": True},
        sub={"essential": True},
    )
    try:
        claims = jwt.decode(token, key, algorithms=[ALGORITHM]).claims
        rules.validate(claims)
    except (JoseError, ValueError) as error:
        raise Unauthorized(f"the token is refused: {getattr(error, 'description', '') or error}") from None
    return claims


class Verified:
    """Tokens whose signature was verified a short time ago: a client sends the same one with each request.

    Two keys must not have the same `kid`. most: tokens that are remembered.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._claims: OrderedDict[tuple[str, str, str, str], Claims] = OrderedDict()

    @property
    def known(self) -> int:
        """Return the number of tokens that are remembered."""
        return len(self._claims)

    def at_hand(self, token: str, key: OKPKey, issuer: str, audience: str) -> Claims | None:
        """The claims of a token that surely holds now and is remembered."""
        known = self._claims.get((token, str(key.kid), issuer, audience))
        return known if known is not None and holds(known, time.time()) else None

    def claims(self, token: str, key: OKPKey, issuer: str, audience: str, now: datetime | None = None) -> Claims:
        """The claims of a token that the key signed for us and that holds now, as `verify`. Raises Unauthorized."""
        moment = now or datetime.now(UTC)
        about = (token, str(key.kid), issuer, audience)
        known = self._claims.get(about)
        if known is not None and holds(known, moment.timestamp()):
            self._claims.move_to_end(about)
            return known
        claims = verify(token, {str(key.kid): key}, issuer, audience, moment)
        self._claims[about] = claims
        if len(self._claims) > self._most:
            self._claims.popitem(last=False)
        return claims


def holds(claims: Claims, now: float) -> bool:
    """Return True if the token surely holds at that POSIX time; at its edges the verifier decides."""
    return bool(claims["nbf"] <= now < claims["exp"])
