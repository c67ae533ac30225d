"""The authorization code flow with PKCE: where the browser is sent, and what the code is exchanged for."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import orjson

from tenantry.model.verdicts import Invalid, Problem, Unauthorized
from tenantry.oidc.issuers import Issuer
from tenantry.rest.outbound import Outbound


@dataclass(frozen=True)
class Attempt:
    """One sign-in under way. state and nonce bind the answers to it; verifier is the secret of PKCE; next: where it ends."""

    provider: str
    state: str
    nonce: str
    verifier: str
    next: str

    @classmethod
    def new(cls, provider: str, next_: str) -> Attempt:
        """A fresh one, with 256 bits in each secret."""
        return cls(provider, secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(32), next_)

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True)
class OidcClient:
    """This server, as the issuer knows it. name: of the issuer, for people; secret: `""` for a public client."""

    name: str
    id: str
    scopes: str
    secret: str = field(repr=False)
    redirect_uri: str


def authorization_url(issuer: Issuer, client: OidcClient, attempt: Attempt) -> str:
    """Return the URL at which the browser signs in. scopes are sent as declared. Raises Invalid for an issuer without one."""
    if issuer.no_sign_in:
        reason = f"{client.name} signs nobody in by a browser, it only vouches for tokens: {issuer.no_sign_in}"
        raise Invalid((Problem("issuer_url", reason),))
    query = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": client.redirect_uri,
        "scope": client.scopes,
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": attempt.challenge,
        "code_challenge_method": "S256",
    }
    from yarl import URL

    return str(URL(issuer.authorization_endpoint).update_query(query))


async def exchange(outbound: Outbound, issuer: Issuer, client: OidcClient, attempt: Attempt, code: str) -> str:
    """The ID token for the code. Raises Unauthorized when the issuer refuses, Unreachable."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.redirect_uri,
        "code_verifier": attempt.verifier,
        "client_id": client.id,
    }
    headers: Mapping[str, str] = {}
    if client.secret and issuer.basic:
        headers = {"Authorization": _basic(client.id, client.secret)}
    elif client.secret:
        form["client_secret"] = client.secret
    answer = await outbound.post_form(issuer.token_endpoint, form, headers, "token_endpoint")
    try:
        told = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        told = None
    if answer.status != 200 or not isinstance(told, dict) or not isinstance(told.get("id_token"), str):
        error = told.get("error") if isinstance(told, dict) else None
        raise Unauthorized(f"{client.name} refuses the sign-in: {error if isinstance(error, str) else answer.status}"[:300])
    token: str = told["id_token"]
    return token


def _basic(client_id: str, secret: str) -> str:
    """RFC 6749, 2.3.1: both are form-encoded first."""
    return "Basic " + base64.b64encode(f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()).decode()
