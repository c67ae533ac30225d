"""Sign-in to the console through a trusted issuer, by the authorization code flow with PKCE."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.trusted_issuers import Trusted
from tenantry.api.facade_context import FacadeContext
from tenantry.console.http.pages import HEADERS, redirect
from tenantry.console.http.sessions import BASE, Sessions, following
from tenantry.model.verdicts import Halt, NotFound, Unauthorized
from tenantry.oidc.flow import Attempt
from tenantry.rest.auth.tokens import Claims

AUDIENCE = "tenantry-console-sign-in"
LIFE = timedelta(minutes=10)
SHOWN = 200
"""Characters of an issuer's own error that a page shows."""
Refuse = Callable[[Request, Halt], Response]


class IssuerSignIn:
    """The way to an issuer, and back from it."""

    def __init__(self, context: FacadeContext, sessions: Sessions, refuse: Refuse) -> None:
        """refuse: answers with the sign-in page, which shows why."""
        self._context = context
        self._sessions = sessions
        self._refuse = refuse

    @property
    def _trusted(self) -> Trusted:
        """Raises NotFound."""
        if self._context.facade.trusted is None:
            raise NotFound("no issuer signs people in")
        return self._context.facade.trusted

    async def begin(self, request: Request) -> Response:
        """Send the browser to the issuer, with the attempt in a cookie."""
        try:
            url, attempt = await self._trusted.begin(request.path_params["issuer"], _callback(request), following(request))
        except NotFound:
            raise
        except Halt as halt:
            return self._refuse(request, halt)
        claims = {"sub": attempt.provider, "aud": AUDIENCE, **asdict(attempt)}
        answer = Response(status_code=303, headers={**HEADERS, "Location": url})
        self._sessions.begin(request, answer, self._context.facade.keys.sign(claims, LIFE), LIFE)
        return answer

    async def finish(self, request: Request) -> Response:
        """Take the browser back, and give it a session for as long as a token holds."""
        try:
            attempt = self._attempt(request)
            user = await self._trusted.finish(attempt, request.query_params["code"], _callback(request))
            life = self._context.facade.token_ttl
            token = self._context.authenticator.issue_to(user, attempt.provider, life)
        except Halt as halt:
            return self._refuse(request, halt)
        answer = redirect(attempt.next)
        self._sessions.open(request, answer, token, life)
        self._sessions.ended(request, answer)
        return answer

    def _attempt(self, request: Request) -> Attempt:
        """The attempt that this browser began and the issuer answers. Raises Unauthorized."""
        claims: Claims = self._context.facade.keys.verify(self._sessions.attempt(request), AUDIENCE)
        attempt = Attempt(*(str(claims[name]) for name in ("provider", "state", "nonce", "verifier", "next")))
        given = request.query_params
        if not hmac.compare_digest(given.get("state", "").encode(), attempt.state.encode()):
            raise Unauthorized("this is not the sign-in that the browser began; begin again")
        if not given.get("code"):
            raise Unauthorized(f"the issuer refuses the sign-in: {given.get('error', 'it sent no code')[:SHOWN]}")
        return attempt


def _callback(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{BASE}/callback"
