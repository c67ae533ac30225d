"""Requests as spans: a write at once, a read when its answer is an error or its caller traces it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.tracing.context import TraceContext
from tenantry.tracing.work import Tracer, Work, tracer, working

HEADER = b"traceparent"
_WORK = "tenantry.work"
"""In the scope of a request that an outer application traces already: its Work."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def traced_requests(app: ASGIApp) -> ASGIApp:
    """Return the application with its requests traced; as it is while tracing is off."""
    return TracedRequests(app, tracer()) if tracer().on else app


class TracedRequests:
    """ASGI middleware, outside of all other."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _WORK in scope:
            await self._route_named(scope, receive, send)
            return
        parent = next((_context(value) for name, value in scope["headers"] if name == HEADER), None)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        work = scope[_WORK] = Work(self._tracer, method, "server", parent)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                work.attributes["http.response.status_code"] = message["status"]
            await send(message)

        with working(work):
            if parent is not None and parent.sampled:
                work.join()
            try:
                await self._app(scope, receive, noted)
            finally:
                if work.started:
                    _describe(work, scope, method)

    async def _route_named(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a part of a traced request. This application knows the route, and the outer one does not."""
        work: Work = scope[_WORK]
        try:
            await self._app(scope, receive, send)
        finally:
            if work.started:
                _describe(work, scope, scope["method"] if scope["method"] in _METHODS else "other")


def _describe(work: Work, scope: Scope, method: str) -> None:
    """Name the route, never the path: that holds ids, and a query holds codes of sign-ins."""
    work.attributes["http.request.method"] = method
    if route := getattr(scope.get("route"), "path", ""):
        work.name = f"{method} {route}"
        work.attributes["http.route"] = route
    status = work.attributes.get("http.response.status_code", 500)
    if isinstance(status, int) and status >= 500:
        work.error = str(status)


def _context(header: bytes) -> TraceContext | None:
    return TraceContext.parse(header.decode("latin-1").strip())
