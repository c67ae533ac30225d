"""HEAD wherever GET is, OPTIONS, and an Allow that names every method of a path, as RFC 9110 asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.rest.problems import problem

NOT_FOUND, REFUSED = 404, 405
_OURS = frozenset({"HEAD", "OPTIONS"})


class EveryMethod:
    """ASGI middleware around a router. An endpoint that knows HEAD or OPTIONS answers itself."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        await self._app(scope, receive, answer)
        if not answer.kept:
            return
        allowed, method = self._allowed(scope), scope["method"]
        if not allowed or (method in allowed and method not in _OURS):
            await answer.send_on()
        elif method == "OPTIONS":
            await Response(None, 204, {"Allow": ", ".join(allowed)})(scope, receive, send)
        elif method == "HEAD" and "GET" in allowed:
            await _without_body(self._app, {**scope, "method": "GET"}, receive, send)
        else:
            refusal = problem(
                REFUSED, f"method {method} is not allowed on {Request(scope).url.path}", {"Allow": ", ".join(allowed)}
            )
            await refusal(scope, receive, send)

    def _allowed(self, scope: Scope) -> list[str]:
        methods = {
            method
            for route in self._routes
            if route.matches(scope)[0] is not Match.NONE
            for method in getattr(route, "methods", None) or ()
        }
        return sorted(methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())) if methods else []


class _Answer:
    """Sends an answer on, except one that may be about the method, which it keeps: a route of every path hides other refusals."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.kept: list[Message] = []

    async def __call__(self, message: Message) -> None:
        if self.kept or (message["type"] == "http.response.start" and message["status"] in (NOT_FOUND, REFUSED)):
            self.kept.append(message)
        else:
            await self._send(message)

    async def send_on(self) -> None:
        for message in self.kept:
            await self._send(message)


async def _without_body(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as GET does, without its body. An endpoint that goes on sending is ended."""
    complete = asyncio.Event()

    async def headers_only(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
        elif not complete.is_set():
            await send({"type": "http.response.body", "body": b""})
            complete.set()
            if message.get("more_body"):
                working.cancel()

    working = asyncio.ensure_future(app(scope, receive, headers_only))
    try:
        await working
    except asyncio.CancelledError:
        if not complete.is_set():
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            raise
