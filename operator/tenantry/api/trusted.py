"""Users whom an issuer vouches for that the platform trusts: by its tokens, whose claims name role and tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tenantry.engine.oidc.roles import claimed
from tenantry.engine.oidc.tokens import Claims, ForeignTokens, claimed_issuer
from tenantry.model.verdicts import Unauthorized


@dataclass(frozen=True)
class TrustedIssuer:
    """url: its `iss`. audience: which of its tokens are meant for us. The claims are names, or paths by dots."""

    url: str
    audience: str
    role_claim: str = "role"
    tenant_claim: str = "tenantId"


@dataclass(frozen=True)
class Vouched:
    """What a token says of its user. tenant_id: `""` for none."""

    issuer: str
    subject: str
    role: str
    tenant_id: str

    @property
    def id(self) -> str:
        return f"{self.issuer}#{self.subject}"

    @property
    def username(self) -> str:
        """The id, printable anywhere: a name of the issuer's choice could be that of a local user."""
        return f"{self.issuer}#{quote(self.subject, safe='@:|')}"


class Trusted:
    """Verifies the tokens of trusted issuers."""

    def __init__(self, tokens: ForeignTokens, issuers: Sequence[TrustedIssuer]) -> None:
        self._tokens = tokens
        self._issuers = issuers

    def issued(self, token: str) -> bool:
        """Does it claim to be of one of them? Proves nothing."""
        return bool(self._issuers) and bool(self._of(token))

    async def user(self, token: str) -> Vouched:
        """Whom it is of. Raises Unauthorized, and Unreachable when the issuer cannot be asked."""
        refusal = Unauthorized("no trusted issuer signs such tokens")
        for issuer in self._of(token):
            try:
                claims = await self._tokens.verify(token, issuer.url, issuer.audience)
            except Unauthorized as error:
                refusal = error
            else:
                return _vouched(issuer, claims)
        raise refusal

    def _of(self, token: str) -> list[TrustedIssuer]:
        name = claimed_issuer(token).rstrip("/")
        return [one for one in self._issuers if name and one.url.rstrip("/") == name]


def _vouched(issuer: TrustedIssuer, claims: Claims) -> Vouched:
    role = _one(claims, issuer.role_claim)
    if not role:
        raise Unauthorized(f"the token's claim {issuer.role_claim} names no role")
    return Vouched(str(claims["iss"]), str(claims["sub"]), role, _one(claims, issuer.tenant_claim))


def _one(claims: Mapping[str, Any], claim: str) -> str:
    """The claim's text, also alone in a list; `""` where it is absent. Raises Unauthorized for anything else."""
    value = claimed(claims, claim)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or value == []:
        return ""
    if not isinstance(value, str):
        raise Unauthorized(f"the token's claim {claim} must be one text")
    return value
