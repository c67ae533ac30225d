"""FastAPI: it describes every table of routes for OpenAPI."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.model.verdicts import Invalid
from tenantry.rest.apps.methods import EveryMethod
from tenantry.rest.docs.api_page import serve_api_page
from tenantry.rest.docs.document import ERROR_CONTENT, path_parameter
from tenantry.rest.docs.site import serve_site
from tenantry.rest.problems import answer_halt, answer_problems, problems_of
from tenantry.rest.release import release_label
from tenantry.rest.routes import ROLE, Endpoint, Query, Route, RouteTable, refuse_unknown
from tenantry.rest.traces.requests import traced_requests

_ALWAYS = (429, 503)
"""The statuses with which every route may refuse: too many requests, and a platform that starts or lost its store."""
_DESCRIBED = {
    "limit": ("integer", "Items of a page, 1 to 1,000. Default: all."),
    "continue": ("string", "The start of a page, from the header Link of the page before."),
    "dryRun": ("boolean", "Answer what would happen, and do nothing."),
    "tenantId": ("string", "The tenant; needed by a SUPERUSER."),
    "slug": ("string", "The slug to check."),
    "region": ("string", "The region for the preview of the URL."),
}
_HEADERS = {
    "If-Match": "An ETag: the write is refused (412) once the object is of another generation.",
    "If-Plan": "The digest of a plan, from ?dryRun=true: the write is refused (412) once it would do something else.",
    "If-None-Match": "An ETag: 304 while it is the answer's.",
    "Idempotency-Key": "The same key and body get the same answer for 24 hours.",
    "Tenantry-Signature": "A .minisig file of the bytes, in base64, for the Packages that hold them.",
    "Prefer": "wait=N: answer when the operation has ended, at the latest after N seconds.",
}


class RestApp(FastAPI):
    """An application with `outer` around all of FastAPI's middleware: requests that it answers are spared the framework.

    Its requests are traced where tracing is on. FastAPI's own telemetry stays off: it looks for providers at each request,
    and it would send bodies and stack traces to one that is set up.
    """

    def __init__(self, title: str, outer: Callable[[ASGIApp], ASGIApp]) -> None:
        super().__init__(
            title=title,
            version=release_label(),
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False},
        )
        self._outer = outer
        self.add_exception_handler(RequestValidationError, _on_validation)

    def build_middleware_stack(self) -> ASGIApp:
        return traced_requests(self._outer(EveryMethod(super().build_middleware_stack(), self.router.routes)))


class LeanRoute(APIRoute):
    """Described like any route, called without FastAPI's parsing: the endpoint reads what it needs."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **described: Any) -> None:
        super().__init__(path, endpoint, **described)
        self.app = _called(endpoint)


def _called(endpoint: Endpoint) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return app


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answer_halt(request, Invalid(problems_of(list(error.errors()))))


def described(title: str, tables: Iterable[RouteTable]) -> FastAPI:
    """Return an application that answers what describes those tables, and nothing else in earnest."""
    app = RestApp(title, lambda inner: inner)
    answer_problems(app)
    for table in tables:
        add_routes(app, table.routes, table.tag, table.at, errors=table.errors)
    serve_api_page(app)
    serve_site(app)
    return app


def add_routes(app: FastAPI, routes: Sequence[Route], tag: str, at: str = "", *, errors: tuple[int, ...] = ()) -> None:
    """Adds those routes below the path `at`. errors: statuses that each may answer.

    To the app itself: of an included router FastAPI makes each route twice, and metrics would name a path without its prefix.
    """
    for route in routes:
        lean = len(signature(route.endpoint).parameters) == 1
        app.router.add_api_route(
            at + route.path,
            route.endpoint,
            methods=[route.method],
            name=route.endpoint.__name__,
            operation_id=_operation_id(tag, route),
            summary=_summary(route.endpoint),
            tags=[tag],
            status_code=route.status,
            response_model=None,
            responses=_responses(route, errors),
            openapi_extra=_extra(route, lean),
            route_class_override=LeanRoute if lean else APIRoute,
        )
        added = app.router.routes[-1]
        assert isinstance(added, APIRoute)
        added.app = _strict(added.app, route.parameters)


def _strict(app: ASGIApp, known: frozenset[str] | None) -> ASGIApp:
    async def strict(scope: Scope, receive: Receive, send: Send) -> None:
        refuse_unknown(scope, known)
        await app(scope, receive, send)

    return strict


def _operation_id(tag: str, route: Route) -> str:
    """The name that generated clients give to the call: `environments_create`."""
    return f"{tag}_{route.endpoint.__name__}".replace("-", "_")


def _summary(endpoint: Endpoint) -> str:
    """The first sentence of the endpoint's docstring, without its full stop."""
    first = " ".join((endpoint.__doc__ or "").strip().partition("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".")


def _responses(route: Route, errors: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    plain = {"description": "Nothing" if route.status == 204 else "Text"}
    success = route.answer if isinstance(route.answer, dict) else {"model": route.answer} if route.answer else plain
    responses: dict[int | str, dict[str, Any]] = {route.status: success}
    refusals = {*route.errors, *(() if route.public else errors), *((404,) if "{" in route.path else ())}
    return responses | {status: {"content": ERROR_CONTENT} for status in sorted({*refusals, *_ALWAYS})}


def _extra(route: Route, lean: bool) -> dict[str, Any]:
    parameters = [path_parameter(part[1:-1]) for part in route.path.split("/") if lean and part.startswith("{")]
    parameters += [_query_parameter(name) for name in route.query]
    parameters += [_header_parameter(name) for name in route.headers]
    extra: dict[str, Any] = {"parameters": parameters} if parameters else {}
    if route.role:
        extra[ROLE] = route.role
    if route.public:
        extra["security"] = []
    if isinstance(route.body, dict):
        extra["requestBody"] = route.body
    elif route.body is not None:
        extra["requestBody"] = {"content": {"application/json": {"schema": _inlined(route.body)}}, "required": True}
    return extra


@functools.cache
def _inlined(body: type[BaseModel]) -> Any:
    """The model's schema without references, which OpenAPI would look for in its components."""
    schema = body.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(node: Any) -> Any:
        if isinstance(node, list):
            return [resolved(item) for item in node]
        if not isinstance(node, dict):
            return node
        target = definitions.get(str(node.get("$ref", "")).rpartition("/")[2])
        return {key: resolved(value) for key, value in (target or node).items()}

    return resolved(schema)


def _query_parameter(given: str | Query) -> dict[str, Any]:
    schema: dict[str, Any]
    if isinstance(given, Query):
        schema = {"type": "string"} | ({"enum": list(given.choices)} if given.choices else {})
        schema |= {"format": given.format} if given.format else {}
        return {"name": given.name, "in": "query", "required": False, "schema": schema, "description": given.description}
    name = given.rstrip("!")
    type_, description = _DESCRIBED[name]
    schema = {"type": type_} | ({"minimum": 1, "maximum": 1000} if name == "limit" else {})
    return {"name": name, "in": "query", "required": given != name, "schema": schema, "description": description}


def _header_parameter(given: str | Query) -> dict[str, Any]:
    name, description = (given.name, given.description) if isinstance(given, Query) else (given, _HEADERS[given])
    return {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, "description": description}
