"""Users whom an active external identity provider vouches for: by its tokens, and by a browser's sign-in."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

from joserfc.jwk import OKPKey
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tenantry.engine.oidc import cookies
from tenantry.engine.oidc.federation import FederatedIdentity
from tenantry.engine.principal import Principal
from tenantry.model.facts import EngineIdentityProvider
from tenantry.model.verdicts import Forbidden, NotFound, Unauthorized
from tenantry.oidc.flow import Attempt, OidcClient, authorization_url, exchange
from tenantry.oidc.roles import roles_of
from tenantry.oidc.tokens import Claims, ForeignTokens, claimed_issuer
from tenantry.rest.auth.destinations import climbs
from tenantry.rest.bodies import invalid, json_response

NO_STORE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_NAMES = ("preferred_username", "email", "name")


class Federation(Protocol):
    """The engine's part in sign-in."""

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        """All of them, active or not."""

    async def client_secret(self, provider: str) -> str:
        """The secret that is declared for it, `""` for none."""

    async def federated(self, issuer: str, subject: str, username: str, provision: bool) -> FederatedIdentity | None:
        """The identity of that issuer and `sub`, made where `provision` says so."""

    async def signed_in(self, id_: str, session: str) -> FederatedIdentity | None:
        """The identity of a browser's session, and its claimed roles. Raises Unauthorized once it is signed out."""

    async def end_session(self, session: str, until: int) -> None:
        """Signs a session out for good. until: when its cookie expires, in seconds since the epoch."""

    async def claim_roles(self, id_: str, roles: Mapping[str, str]) -> None:
        """Keeps the roles that were claimed for it."""


class ExternalSignIn:
    """Sign-in at one engine. key: signs its cookies; uid: the environment's, in their audience.

    public_url: where browsers reach it, as it is declared; as each request says where empty.
    """

    def __init__(
        self, engine: Federation, tokens: ForeignTokens, key: Callable[[], Awaitable[OKPKey]], uid: str, public_url: str = ""
    ) -> None:
        self._engine = engine
        self._tokens = tokens
        self._key = key
        self._uid = uid
        self._public_url = public_url

    async def by_token(self, token: str) -> Principal:
        """Return the user of a foreign token. Raises Unauthorized, and Unreachable when the issuer cannot be reached."""
        issuer = claimed_issuer(token).rstrip("/")
        trusted = [one for one in await self._active() if issuer and one.settings.issuer_url.rstrip("/") == issuer]
        refusal = Unauthorized("no active identity provider of this engine issues such tokens")
        for provider in trusted:
            try:
                claims = await self._tokens.verify(token, provider.settings.issuer_url, provider.settings.client_id)
            except Unauthorized as error:
                refusal = error
            else:
                identity = await self._identity(provider, claims)
                return _principal(provider, identity, roles_of(claims, provider.settings.roles_claim))
        raise refusal

    async def by_session(self, request: Request) -> Principal:
        """Return the user of the browser. Raises Unauthorized, also once its provider is inactive; Forbidden for a foreign
        page's write."""
        session = cookies.session_of(request, await self._key(), self._uid, secure=self._secure(request))
        provider = next((one for one in await self._active() if one.id == session["provider"]), None)
        identity = await self._engine.signed_in(session["sub"], session["jti"])
        if provider is None or identity is None or identity.issuer.rstrip("/") != provider.settings.issuer_url.rstrip("/"):
            raise Unauthorized("the session is no longer valid: its identity provider no longer signs anybody in")
        return _principal(provider, identity, identity.roles if provider.settings.roles_claim else {})

    async def providers(self, request: Request) -> Response:
        """List the identity providers that sign in, and where."""
        base = self._base(request)
        active = [{"id": one.id, "name": one.settings.name, "url": f"{base}/auth/login/{one.id}"} for one in await self._active()]
        return json_response({"data": active})

    async def begin(self, request: Request, id_: str) -> Response:
        """Send the browser to an identity provider. Raises NotFound, Unreachable, Invalid for a `next` elsewhere."""
        provider = next((one for one in await self._active() if one.id == id_), None)
        if provider is None:
            raise NotFound(f"no active identity provider with id {id_}")
        attempt = Attempt.new(provider.id, _next(request))
        issuer = await self._tokens.issuers.issuer(provider.settings.issuer_url)
        url = authorization_url(issuer, _client(provider, "", self._redirect_uri(request)), attempt)
        response = RedirectResponse(url, 303, NO_STORE)
        cookies.set_attempt(response, request, attempt, await self._key(), self._uid, secure=self._secure(request))
        return response

    async def finish(self, request: Request) -> Response:
        """Take the browser back from an identity provider, signed in. Raises Unauthorized, Unreachable."""
        attempt = cookies.attempt_of(request, await self._key(), self._uid)
        given = request.query_params
        if not hmac.compare_digest(given.get("state", "").encode(), attempt.state.encode()):
            raise Unauthorized("this is not the sign-in that the browser began")
        provider = next((one for one in await self._active() if one.id == attempt.provider), None)
        if provider is None:
            raise Unauthorized("the identity provider no longer signs anybody in")
        if not given.get("code"):
            raise Unauthorized(f"{provider.settings.name} refuses the sign-in: {given.get('error', 'no code')[:200]}")
        claims = await self._claims(provider, attempt, given["code"], self._redirect_uri(request))
        identity = await self._identity(provider, claims)
        await self._engine.claim_roles(identity.id, roles_of(claims, provider.settings.roles_claim))
        response = RedirectResponse(attempt.next, 303, NO_STORE)
        cookies.set_session(
            response,
            request,
            identity.id,
            provider.id,
            await self._key(),
            self._uid,
            secure=self._secure(request),
        )
        return response

    async def end(self, request: Request) -> Response:
        """Sign the browser out: its session ends here too, so a copy of its cookie is refused from now on."""
        cookies.check_origin(request, secure=self._secure(request))
        with suppress(Unauthorized):  # a browser without a session is signed out already
            session = cookies.session_of(request, await self._key(), self._uid, secure=self._secure(request))
            await self._engine.end_session(session["jti"], cookies.end_of(session))
        response = Response(None, 204)
        cookies.clear(response, request, cookies.SESSION, secure=self._secure(request))
        return response

    def _base(self, request: Request) -> str:
        return self._public_url or cookies.base_url_of(request)

    def _secure(self, request: Request) -> bool:
        return self._base(request).startswith("https:")

    def _redirect_uri(self, request: Request) -> str:
        return f"{self._base(request)}/auth/callback"

    async def _claims(self, provider: EngineIdentityProvider, attempt: Attempt, code: str, redirect_uri: str) -> Claims:
        settings, issuers = provider.settings, self._tokens.issuers
        issuer = await issuers.issuer(settings.issuer_url)
        secret = await self._engine.client_secret(provider.id)
        client = _client(provider, secret, redirect_uri)
        token = await exchange(issuers.outbound, issuer, client, attempt, code)
        return await self._tokens.verify(token, settings.issuer_url, settings.client_id, attempt.nonce)

    async def _active(self) -> list[EngineIdentityProvider]:
        return [one for one in await self._engine.identity_providers() if one.settings.is_active]

    async def _identity(self, provider: EngineIdentityProvider, claims: Claims) -> FederatedIdentity:
        given = [claims[name] for name in _NAMES if isinstance(claims.get(name), str) and claims[name].isprintable()]
        username = next(filter(None, given), claims["sub"])
        identity = await self._engine.federated(claims["iss"], claims["sub"], username, provider.settings.auto_provision)
        if identity is None:
            raise Forbidden(f"{provider.settings.name} knows you, but this engine does not, and it provisions nobody")
        return identity


def _client(provider: EngineIdentityProvider, secret: str, redirect_uri: str) -> OidcClient:
    settings = provider.settings
    return OidcClient(settings.name, settings.client_id, settings.scopes, secret, redirect_uri)


def _principal(provider: EngineIdentityProvider, identity: FederatedIdentity, claimed: Mapping[str, str]) -> Principal:
    """default_roles hold for the apps of which no role is claimed."""
    roles = {**provider.settings.default_roles, **claimed}
    return Principal(identity.id, identity.username, foreign=True, roles=roles)


def _next(request: Request) -> str:
    """A path of this engine: a sign-in must not end on a foreign page."""
    root = cookies.root_of(request)
    path = request.query_params.get("next", f"{root}/api/v1/auth/me")
    plain = path.isascii() and path.isprintable() and len(path) <= 1024 and "\\" not in path
    if not plain or not path.startswith(f"{root}/") or path.startswith("//") or climbs(path):
        raise invalid("next", f"must be a path of this engine: it begins with {root}/")
    return path
