"""The address at which the console may be used. Apps are hostile: no page of theirs shares an origin with it and acts there.

On plain http the console is at `localhost` only, and engines at 127.0.0.1: two origins. Pages of apps at any other name of this
process run in a sandbox, which gives them an origin of their own.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.model.verdicts import Forbidden
from tenantry.rest.answers import AnswerNow, LateAnswer, ReadyAnswer, in_time, not_now, with_header
from tenantry.rest.apps.host_header import host_of

SANDBOX = (b"content-security-policy", b"sandbox allow-scripts allow-forms allow-popups")
LOCALHOST = "localhost"


@lru_cache(maxsize=256)  # few names lead to a server, and each request has one
def loopback(host: str) -> bool:
    """Return True for an address of this machine. Names are none."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def safe(request: Request) -> bool:
    """Return True if a session may be used at this address: https, or this machine by the name localhost."""
    return request.url.scheme == "https" or host_of(request.scope) == LOCALHOST


def at_localhost(request: Request) -> str:
    """The same page at `localhost`, if it was asked for by an address of this machine; otherwise `""`."""
    if safe(request) or not loopback(host_of(request.scope)):
        return ""
    port = f":{request.url.port}" if request.url.port else ""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"http://{LOCALHOST}{port}{request.url.path}{query}"


def of_this_machine(request: Request) -> bool:
    """Return True if the sender is on this machine, with no proxy in between that says so."""
    forwarded = any(name in request.headers for name in ("forwarded", "x-forwarded-for"))
    return request.client is not None and loopback(request.client.host) and not forwarded


def check_origin(request: Request) -> None:
    """Raises Forbidden unless a page of this origin sent the request, as its browser says."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is None and origin is None:
        raise Forbidden("the browser does not say which page sent this form; use a current browser")
    foreign = origin is not None and origin.partition("://")[2] != request.headers.get("host", "")
    if foreign or site not in (None, "same-origin"):
        raise Forbidden("a page of another origin sent this form")


def _at_loopback(scope: Scope) -> bool:
    """Return True for plain http at an address of this machine, where the console is not."""
    return scope["scheme"] == "http" and loopback(host_of(scope))


class Sandboxed:
    """Serves engines. Pages of their apps run in a sandbox where they would share the origin of the console.

    now: answers what needs no waiting.
    """

    def __init__(self, app: ASGIApp, now: AnswerNow = not_now) -> None:
        self._app = app
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = await in_time(self.answer_now(scope))
        if answer is not None:
            await answer.send(send)
            return
        if _at_loopback(scope):
            await self._app(scope, receive, send)
            return

        async def sandboxed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), SANDBOX]}
            await send(message)

        await self._app(scope, receive, sandboxed)

    def answer_now(self, scope: Scope) -> ReadyAnswer | LateAnswer | None:
        """Return an answer before the framework, as AnswerNow."""
        answer = self._now(scope)
        return answer if answer is None or _at_loopback(scope) else with_header(answer, SANDBOX)
