"""Signing in, who is signed in, and the public keys of the platform's tokens."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.issuer_sessions import RECORD, ensure_record
from tenantry.api.facade_context import FacadeContext
from tenantry.api.http.bodies import AuthMeResponse
from tenantry.kinds.user.sessions import ended
from tenantry.rest.auth.sign_in import PASSWORD_GRANT, TokenResponse, password_grant
from tenantry.rest.auth.throttle import address_of
from tenantry.rest.bodies import json_response
from tenantry.rest.routes import Route
from tenantry.runtime.reconcile.revising import revise


class SignIn:
    """POST /auth/token, GET /auth/me, POST /auth/logout."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    def routes(self) -> Sequence[Route]:
        return [
            Route("POST", "/auth/token", self.token, 200, TokenResponse, (400, 401, 429), body=PASSWORD_GRANT, public=True),
            Route("GET", "/auth/me", self.me, 200, AuthMeResponse),
            Route("POST", "/auth/logout", self.logout, 204, None, (400, 500)),
        ]

    async def token(self, request: Request) -> Response:
        """Sign in with username and password."""
        user = await self._context.authenticator.sign_in(await password_grant(request), address_of(request))
        ttl = self._context.facade.token_ttl
        token = self._context.authenticator.issue(user, ttl)
        answer = TokenResponse(access_token=token, expires_in=int(ttl.total_seconds()))
        return json_response(answer.model_dump(), headers={"Cache-Control": "no-store"})

    async def me(self, request: Request) -> Response:
        """Tell who is signed in."""
        principal = await self._context.enter(request)
        caller = principal.caller
        return json_response({"sub": caller.subject, "role": caller.role, "tenantId": principal.tenant_id})

    async def logout(self, request: Request) -> Response:
        """Sign out: end the session of the token that is sent, for good and in every replica."""
        context = self._context
        await context.enter(request)
        session = context.authenticator.session(request)
        if session.user == RECORD:
            await ensure_record(context.facade.store)
        # Not through the caller's own rights or a source: a VIEWER and a declared User sign out as well.
        _, after = await revise(context.facade.store, session.user, lambda user: ended(user, session, context.facade.now()))
        return Response(status_code=204, headers=context.versions.headers(after))

    async def jwks(self, request: Request) -> Response:
        """The public keys that verify the platform's tokens."""
        return json_response(self._context.facade.keys.jwks())
