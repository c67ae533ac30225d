"""Counts requests that take the ordinary way through the framework; `direct` counts those for rows."""

from __future__ import annotations

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.model.measures import EngineOperation, RequestMeasures

_PLACES: tuple[tuple[str, EngineOperation], ...] = (
    ("/api/v1/data/", "read"),
    ("/api/v1/admin", "admin"),
    ("/api/v1/auth/", "sign-in"),
    ("/auth/", "sign-in"),
    ("/apps/", "content"),
)
BY_OPERATOR = "tenantry.by-operator"
"""In the scope of a request that the platform itself sent."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class CountedRequests:
    """Counts the answers of an application by what was asked."""

    def __init__(self, app: ASGIApp, measures: RequestMeasures) -> None:
        self._app = app
        self._measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["path"].removeprefix(scope.get("root_path", ""))
                seconds, by_operator = perf_counter() - started, BY_OPERATOR in scope
                operation = operation_of(scope["method"], path)
                self._measures.answered(operation, message["status"], seconds, by_operator=by_operator)
            await send(message)

        await self._app(scope, receive, counted)


def operation_of(method: str, path: str) -> EngineOperation:
    """Return what a request at that path of an engine is about."""
    for start, operation in _PLACES:
        if path.startswith(start):
            return "write" if operation == "read" and method not in _READS else operation
    return "other"
