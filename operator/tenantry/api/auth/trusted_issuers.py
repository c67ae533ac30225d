"""Users whom an issuer vouches for that the platform trusts: by its tokens, whose claims name role and tenant."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tenantry.model.verdicts import NotFound, Unauthorized
from tenantry.oidc.flow import Attempt, OidcClient, authorization_url, exchange
from tenantry.oidc.roles import claimed
from tenantry.oidc.tokens import Claims, ForeignTokens, claimed_issuer


@dataclass(frozen=True)
class ConsoleClient:
    """The console as an issuer knows it. name: of the issuer, for people; secret: reads it, blocks, `""` for a public client."""

    name: str
    id: str
    scopes: str = "openid"
    secret: Callable[[], str] = lambda: ""


@dataclass(frozen=True)
class TrustedIssuer:
    """url: its `iss`. audience: which of its tokens are meant for us. parties: the only clients (`azp`) whose tokens are taken;
    all where it is empty. The claims are names, or paths by dots.

    client: by which people sign in to the console, None if nobody does.
    """

    url: str
    audience: str
    role_claim: str = "role"
    tenant_claim: str = "tenantId"
    client: ConsoleClient | None = None
    parties: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Names the issuer and its client in addresses and sessions; the same in every process."""
        client = self.client.id if self.client is not None else ""
        return hashlib.sha256(f"{self.url}\n{client}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Vouched:
    """The claims of a token about its user. tenant_id: `""` for none."""

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
        """Return True if the token claims to be of one of them. Proves nothing."""
        return bool(self._issuers) and bool(self._of(token))

    async def user(self, token: str) -> Vouched:
        """Return the user of the token. Raises Unauthorized, and Unreachable when the issuer cannot be reached."""
        refusal = Unauthorized("no trusted issuer signs such tokens")
        for issuer in self._of(token):
            try:
                claims = await self._tokens.verify(token, issuer.url, issuer.audience, parties=issuer.parties)
            except Unauthorized as error:
                refusal = error
            else:
                return _vouched(issuer, claims)
        raise refusal

    @property
    def sign_ins(self) -> Mapping[str, tuple[TrustedIssuer, ConsoleClient]]:
        """The issuers by which people sign in to the console, by their keys."""
        return {one.key: (one, one.client) for one in self._issuers if one.client is not None}

    async def begin(self, key: str, redirect_uri: str, next_: str) -> tuple[str, Attempt]:
        """The address at which the browser signs in, and the attempt. next_: the page after it.

        Raises NotFound for an issuer that signs nobody in, Unreachable.
        """
        issuer, client = self._sign_in(key)
        attempt = Attempt.new(key, next_)
        described = await self._tokens.issuers.issuer(issuer.url)
        return authorization_url(described, OidcClient(client.name, client.id, client.scopes, "", redirect_uri), attempt), attempt

    async def finish(self, attempt: Attempt, code: str, redirect_uri: str) -> Vouched:
        """The user who has signed in. Raises NotFound, Unauthorized, Unreachable, a Stalled Halt for a lost secret."""
        issuer, client = self._sign_in(attempt.provider)
        issuers = self._tokens.issuers
        known = OidcClient(client.name, client.id, client.scopes, await asyncio.to_thread(client.secret), redirect_uri)
        token = await exchange(issuers.outbound, await issuers.issuer(issuer.url), known, attempt, code)
        return _vouched(issuer, await self._tokens.verify(token, issuer.url, client.id, attempt.nonce))

    def _sign_in(self, key: str) -> tuple[TrustedIssuer, ConsoleClient]:
        found = self.sign_ins.get(key)
        if found is None:
            raise NotFound(f"no issuer {key} signs people in")
        return found

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
