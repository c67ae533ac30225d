"""An application that is imported and made at its first request: `up` listens before it makes its facade."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from time import perf_counter

from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.rest.bodies import json_response

Count = Callable[[str, str, int, float], None]
"""Counts an answer: its method, route, status, and the seconds until it began."""
OK = {"status": "ok"}
STARTING = {"status": "starting"}
"""The answers to probes, before and after the application is made."""


class LaterApp:
    """Serves an application. Requests wait until it is made; only those of probes are answered before.

    modules: those to import; make: makes the application after that; ready: whether the platform has started; fill: reads what
    the application answers from, before it answers.
    """

    def __init__(
        self,
        modules: Sequence[str],
        make: Callable[[], ASGIApp],
        ready: Callable[[], bool],
        count: Count,
        fill: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._modules = modules
        self._make = make
        self._ready = ready
        self._count = count
        self._fill = fill
        self._app: ASGIApp | None = None
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if app is None and scope["type"] == "http" and scope["method"] == "GET":
            if scope["path"] == "/healthz":
                return await self._answer(scope, receive, send, OK, 200)
            if scope["path"] == "/readyz" and not self._ready():
                return await self._answer(scope, receive, send, STARTING, 503)
        return await (app or await self.made())(scope, receive, send)

    async def made(self) -> ASGIApp:
        """Return the application. Its modules are imported in a thread, because that takes a while."""
        async with self._making:
            if self._app is None:
                if self._fill is not None:
                    await self._fill()
                for module in self._modules:
                    await asyncio.to_thread(import_module, module)
                self._app = self._make()
            return self._app

    async def _answer(self, scope: Scope, receive: Receive, send: Send, body: dict[str, str], status: int) -> None:
        """Answer a probe as the application does."""
        began = perf_counter()
        await json_response(body, status)(scope, receive, send)
        self._count("GET", scope["path"], status, perf_counter() - began)
