"""Signing in, who is signed in, and the public keys of the platform's tokens."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.bodies import AuthMeResponse
from tenantry.api.front import Front
from tenantry.api.routes import Route
from tenantry.rest.bodies import json_response
from tenantry.rest.sign_in import PASSWORD_GRANT, TokenResponse, password_grant
from tenantry.rest.throttle import address_of


class SignIn:
    """POST /auth/token, GET /auth/me."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def routes(self) -> Sequence[Route]:
        return [
            Route("POST", "/auth/token", self.token, 200, TokenResponse, (400, 429), (), (), PASSWORD_GRANT),
            Route("GET", "/auth/me", self.me, 200, AuthMeResponse),
        ]

    async def token(self, request: Request) -> Response:
        """Sign in with username and password."""
        user = await self._front.authenticator.sign_in(await password_grant(request), address_of(request))
        ttl = self._front.facade.token_ttl
        token = self._front.authenticator.issue(user, ttl)
        answer = TokenResponse(access_token=token, expires_in=int(ttl.total_seconds()))
        return json_response(answer.model_dump(), headers={"Cache-Control": "no-store"})

    async def me(self, request: Request) -> Response:
        """Tell who is signed in."""
        principal = await self._front.enter(request)
        caller = principal.caller
        return json_response({"sub": caller.subject, "role": caller.role, "tenantId": principal.tenant_id})

    async def jwks(self, request: Request) -> Response:
        """The public keys that verify the platform's tokens."""
        return json_response(self._front.facade.keys.jwks())
