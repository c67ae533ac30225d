"""Routes of the cloud interface: endpoints get the bare request; the table beside them is what OpenAPI tells of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.rest.bodies import invalid
from tenantry.rest.engine_bodies import ErrorResponse

Endpoint = Callable[[Request], Awaitable[Response]]
PAGED = ("limit", "continue")
"""Query parameters of lists."""
TAGGED = ("If-None-Match",)
"""Headers of reads."""
ROLE = "x-role"
"""The OpenAPI extension that names the only role which may call an endpoint."""
CONDITIONAL = (400, 403, 404, 412, 500)
"""What a write of one object may be refused with."""
_DESCRIBED = {
    "limit": ("integer", "Items of a page, 1 to 1,000; all where absent."),
    "continue": ("string", "Where a page begins, from the header Link of the one before."),
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


class Query(NamedTuple):
    """A query parameter of one route alone. choices: all of its values."""

    name: str
    description: str
    choices: tuple[str, ...] = ()
    format: str = ""


class Route(NamedTuple):
    """One endpoint. answer: the status and model of its success; query: parameters, a required one ends in `!`.

    role: the only role that may call it, `""` for every role; others are answered 403 before anything is looked up.
    """

    method: str
    path: str
    endpoint: Endpoint
    status: int
    answer: Any
    errors: tuple[int, ...] = ()
    query: tuple[str | Query, ...] = ()
    headers: tuple[str, ...] = ()
    body: type[BaseModel] | dict[str, Any] | None = None
    role: str = ""


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


def add_routes(app: FastAPI, prefix: str, tag: str, routes: Sequence[Route]) -> None:
    """Adds the routes of one resource."""
    for route in routes:
        app.router.add_api_route(
            prefix + route.path,
            route.endpoint,
            methods=[route.method],
            name=f"{tag}-{route.endpoint.__name__}",
            tags=[tag],
            status_code=route.status,
            response_model=None,
            responses=_responses(route),
            openapi_extra=_extra(route),
            route_class_override=LeanRoute,
        )


def _responses(route: Route) -> dict[int | str, dict[str, Any]]:
    success = {"model": route.answer} if route.answer is not None else {"description": "Text"}
    responses: dict[int | str, dict[str, Any]] = {route.status: success}
    responses |= {status: {"model": ErrorResponse} for status in sorted({401, *route.errors})}
    return responses


def _extra(route: Route) -> dict[str, Any]:
    parameters = [_path_parameter(part[1:-1]) for part in route.path.split("/") if part.startswith("{")]
    parameters += [_query_parameter(name) for name in route.query]
    parameters += [_header_parameter(name) for name in route.headers]
    extra: dict[str, Any] = {"parameters": parameters}
    if route.role:
        extra[ROLE] = route.role
    if isinstance(route.body, dict):
        extra["requestBody"] = route.body
    elif route.body is not None:
        schema = route.body.model_json_schema()
        extra["requestBody"] = {"content": {"application/json": {"schema": schema}}, "required": True}
    return extra


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


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


def _header_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, "description": _HEADERS[name]}


def flag(request: Request, name: str) -> bool:
    """A query parameter that is `true` or `false`; false where absent. Raises Invalid."""
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false"):
        raise invalid(name, "must be true or false")
    return text == "true"


def describe_paths(app: FastAPI) -> None:
    """Makes OpenAPI name every parameter of a path, also of routers that were mounted below one."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        schema = described()
        for path, operations in schema["paths"].items():
            names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
            for operation in operations.values():
                parameters = operation.setdefault("parameters", [])
                known = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
                parameters.extend(_path_parameter(name) for name in names if name not in known)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to change the description
