"""Signing in and out."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.one_time_codes import OneTimeCodes
from tenantry.api.cloud.sign_in import SignIn
from tenantry.console.http.origins import check_origin, of_this_machine
from tenantry.console.http.pages import redirect
from tenantry.console.http.sessions import BASE, LIFE, following
from tenantry.console.routes.shell import PageShell
from tenantry.console.texts import TEXTS
from tenantry.kinds.user.spec import User
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tenantry.model.verdicts import Forbidden, Halt, Unauthorized
from tenantry.rest.auth.sign_in import password_grant
from tenantry.rest.auth.throttle import address_of
from tenantry.rest.problems import status_of


class Entering:
    """The sign-in page, one-time codes, and the end of a session."""

    def __init__(self, shell: PageShell, codes: OneTimeCodes | None) -> None:
        self._shell, self._context, self._sessions = shell, shell.context, shell.sessions
        self._codes = codes

    async def form(self, request: Request) -> Response:
        """The sign-in page."""
        return self._form(request, "")

    def _form(self, request: Request, error: str, status: int = 200, username: str = "") -> Response:
        values = {"title": TEXTS["sign_in"], "error": error, "username": username, "issuers": self._issuers()}
        return self._shell.plain(request, "sign_in.html", status, **values, next=following(request))

    def _issuers(self) -> list[tuple[str, str]]:
        """The keys and names of the issuers that sign people in."""
        trusted = self._context.facade.trusted
        return [(key, client.name) for key, (_, client) in trusted.sign_ins.items()] if trusted is not None else []

    def refuse(self, request: Request, halt: Halt) -> Response:
        """The sign-in page, which shows why a sign-in was refused."""
        return self._form(request, halt.told, status_of(halt, conditional=False))

    async def sign_in(self, request: Request) -> Response:
        """Take a username and a password, as POST /auth/token does."""
        check_origin(request)
        username = ""
        try:
            credentials = await password_grant(request)
            username = credentials.username
            return self._enter(request, await self._context.authenticator.sign_in(credentials, address_of(request)))
        except Halt as halt:
            return self._form(request, halt.told, status_of(halt, conditional=False), username)

    async def code(self, request: Request) -> Response:
        """Take a one-time code of `tenantry up`."""
        if self._codes is None or not of_this_machine(request):
            raise Forbidden("one-time codes work only on the machine on which `tenantry up` runs")
        try:
            held = self._codes.redeem(request.query_params.get("code", ""))
            user = self._context.cache.resource(Ref(User.KIND, SYSTEM_NAMESPACE, held.user))
            if user is None or user.metadata.uid != held.uid:
                raise Unauthorized("the user of the code is gone")
            return self._enter(request, cast(User, user))
        except Unauthorized:
            return self._form(request, TEXTS["code_used"], 401)

    def _enter(self, request: Request, user: User) -> Response:
        answer = redirect(following(request))
        self._sessions.open(request, answer, self._context.authenticator.issue(user, LIFE))
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End the session on the server, as POST /auth/logout does, and in the browser."""
        await self._sessions.form(request)
        answer = redirect(f"{BASE}/sign-in")
        await SignIn(self._context).logout(self._sessions.signed(request))
        self._sessions.close(request, answer)
        return answer
