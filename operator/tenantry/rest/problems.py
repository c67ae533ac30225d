"""Every error is `{"error": "..."}`: how a Halt, an unknown route, a bad parameter and a bug become one."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.model.verdicts import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Halt,
    Invalid,
    NotFound,
    Overtaken,
    Problem,
    Stalled,
    Unauthorized,
)

log = structlog.get_logger(__name__)

UNAVAILABLE = 503
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_RETRY = {"Retry-After": "1"}


def problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The error answer."""
    return Response(orjson.dumps({"error": message}), status, headers, "application/json")


def status_of(halt: Halt, conditional: bool) -> int:
    """The HTTP status of a Halt. `conditional`: the request had If-Match or If-Plan."""
    match halt:
        case NotFound():
            return 404
        case Unauthorized():
            return 401
        case Forbidden():
            return 403
        case Invalid() | AlreadyExists():
            return 400
        case Overtaken():
            return 409
        case Conflict():
            return 412 if conditional else UNAVAILABLE
    match halt.verdict:
        case Stalled(by="User"):
            return 400
        case Stalled():
            return 500
        case _:
            return UNAVAILABLE


def answer_halt(request: Request, halt: Halt) -> Response:
    """A Halt as the caller sees it."""
    status = status_of(halt, "if-match" in request.headers or "if-plan" in request.headers)
    headers = {401: _CHALLENGE, UNAVAILABLE: _RETRY}.get(status)
    return problem(status, halt.verdict.message, headers)


def problems_of(errors: list[Any]) -> tuple[Problem, ...]:
    """pydantic's errors, each naming its field and the reason."""
    return tuple(Problem(_field(error["loc"]), _reason(error)) for error in errors)


_REASONS = {
    "missing": "is required",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "list_type": "must be an array",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
}


def _reason(error: Mapping[str, Any]) -> str:
    known = _REASONS.get(error["type"])
    return known or str(error["msg"])


def _field(location: tuple[str | int, ...]) -> str:
    parts = [part for position, part in enumerate(location) if position or part not in ("body", "query", "path")]
    return ".".join(map(str, parts))


class UnexpectedErrors:
    """Answers 500 for an exception that nobody expected, and logs it; inside Starlette's own, which would raise it again."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if started:  # the length is already promised: only a cut connection tells the client
                raise
            # As text: a renderer that shows local variables would show passwords.
            trace = "".join(traceback.format_exception(error))
            log.error("request.failed", method=scope["method"], path=scope["path"], traceback=trace)
            await problem(500, "an unexpected error; it is in the server's log")(scope, receive, send)


async def _on_halt(request: Request, error: Exception) -> Response:
    assert isinstance(error, Halt)
    return answer_halt(request, error)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {
        404: f"no such path: {request.url.path}",
        405: f"method {request.method} is not allowed on {request.url.path}",
    }
    bare = error.detail in ("Not Found", "Method Not Allowed")
    return problem(error.status_code, message[error.status_code] if bare else error.detail, error.headers)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answer_halt(request, Invalid(problems_of(list(error.errors()))))


async def _on_disconnect(request: Request, error: Exception) -> Response:
    """Nobody reads it; it only ends the request without a traceback."""
    return problem(400, "body: the client went away")


def answer_problems(app: FastAPI) -> None:
    """Makes every error of the app an `{"error": "..."}`."""
    app.add_exception_handler(Halt, _on_halt)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_middleware(UnexpectedErrors)
