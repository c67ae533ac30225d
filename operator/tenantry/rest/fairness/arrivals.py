"""Requests enter an application in turns, by their credentials: what each costs before its tenant is known adds up."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.rest.fairness.gate import Gate


class Arrivals:
    """ASGI middleware. Of many requests that arrive together, some go on in each round of the event loop.

    Requests without credentials do not wait: nothing says whose they are.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._gate = Gate(rest_s=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for name, value in scope["headers"]:
                if name == b"authorization":
                    await self._gate.turn(value.decode("latin-1"))
                    break
        await self._app(scope, receive, send)
