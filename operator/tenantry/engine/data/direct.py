"""Requests for rows skip the framework: found by their path, answered by the same endpoints with the same refusals.

Whatever is not plainly one of them goes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.model.measures import EngineOperation, RequestMeasures
from tenantry.rest.answers import AnswerNow, in_time, not_now
from tenantry.rest.problems import refusal_of, unexpected
from tenantry.rest.routes import Endpoint, Route, strict

LIST, ONE = "/data/{app}/{table}", "/data/{app}/{table}/{key:path}"
CHANGES = "/data/{app}/{table}/changes"
DESCRIPTION = "openapi.json"


class DirectRows:
    """Answers requests below `prefix` by the endpoints of LIST, ONE and CHANGES among `rows`.

    measures: counts those. fast: is asked first, and counts its answers.
    """

    def __init__(
        self,
        app: ASGIApp,
        rows: Sequence[Route],
        prefix: str,
        measures: RequestMeasures | None = None,
        fast: AnswerNow = not_now,
    ) -> None:
        self._app = app
        self._fast = fast
        self._measures = measures or RequestMeasures()
        self._start = f"{prefix}/data/"
        self._endpoints: dict[tuple[str, str], Endpoint] = {
            (row.method, row.path): strict(row.endpoint, row.parameters) for row in rows
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._find(scope) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        endpoint, scope["path_params"], operation = found
        request = Request(scope, receive, send)
        try:
            answer = await in_time(self._fast(scope)) if operation != "listen" else None
            response = await endpoint(request, **scope["path_params"]) if answer is None else None
        except Exception as error:  # noqa: BLE001 - a bug is answered and logged
            response = refusal_of(request, error) or unexpected(scope, error)
        if response is None:
            assert answer is not None
            await answer.send(send)
            return
        self._measures.answered(operation, response.status_code, perf_counter() - started)
        if response.status_code >= 400:
            await response(scope, receive, send)
            return
        self._measures.open += 1
        try:
            await response(scope, receive, send)
        finally:
            self._measures.sent()

    def _find(self, scope: Scope) -> tuple[Endpoint, dict[str, Any], EngineOperation] | None:
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        if not path.startswith(self._start):
            return None
        app, table, *key = path[len(self._start) :].split("/", 2) if path.count("/", len(self._start)) else ("", "")
        if not app or not table or table == DESCRIPTION or key == [""]:
            return None
        method: str = scope["method"]
        if key == ["changes"] and method == "GET":
            endpoint = self._endpoints.get(("GET", CHANGES))
            return None if endpoint is None else (endpoint, {"app": app, "table": table}, "listen")
        endpoint = self._endpoints.get((method, ONE if key else LIST))
        if endpoint is None:
            return None
        parameters = {"app": app, "table": table, "key": key[0]} if key else {"app": app, "table": table}
        return endpoint, parameters, "read" if method == "GET" else "write"
