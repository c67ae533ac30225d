"""Every error is `{"error": "..."}`: how a Halt, an unknown route, a bad parameter and a bug become one."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.model.quotas import ARCHIVES, DATABASE, PACKAGES, REQUESTS, QuotaReached
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
from tenantry.model.wording import reason_of
from tenantry.reasons.entries import address_of, address_of_status
from tenantry.reasons.table import REASONS
from tenantry.rest.blobs import QUOTA
from tenantry.tracing.work import trace_id

log = structlog.get_logger(__name__)

UNAVAILABLE = 503
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_RETRY = {"Retry-After": "1"}
_QUOTA_STATUS = {PACKAGES: 413, DATABASE: 507, ARCHIVES: 507, REQUESTS: 429}


def problem(status: int, message: str, headers: Mapping[str, str] | None = None, reason: str = "") -> Response:
    """The error answer. It names the trace of the request, if it has one, and the page that explains the error."""
    trace = trace_id()
    # A message may quote half of a surrogate pair that a caller sent, which UTF-8 cannot encode.
    body = {"error": message.encode(errors="backslashreplace").decode()} | ({"traceId": trace} if trace else {})
    help_ = {"Link": f'<{explanation_of(status, reason)}>; rel="help"'}
    return Response(orjson.dumps(body), status, help_ | dict(headers or {}), "application/json")


def explanation_of(status: int, reason: str) -> str:
    """Return the path of the page that explains a reason; without one, that of the status."""
    return address_of(reason) if reason else address_of_status(status)


def status_of(halt: Halt, conditional: bool) -> int:
    """The HTTP status of a Halt. `conditional`: the request had If-Match or If-Plan."""
    match halt:
        case NotFound():
            return 404
        case Unauthorized():
            return 401
        case Forbidden():
            return 403
        case QuotaReached():
            return _QUOTA_STATUS[halt.quota]
        case Invalid() | AlreadyExists():
            return 400
        case Overtaken():
            return 409
        case Conflict():
            return 412 if conditional else UNAVAILABLE
    match halt.verdict:
        case Stalled(by="User"):
            return 400
        case Stalled(reason="DataMissing"):
            return UNAVAILABLE  # it serves again as soon as the file is back
        case Stalled():
            return 500
        case _:
            return UNAVAILABLE


def answer_halt(request: Request, halt: Halt) -> Response:
    """A Halt as the caller sees it."""
    status = status_of(halt, "if-match" in request.headers or "if-plan" in request.headers)
    headers = {401: _CHALLENGE, UNAVAILABLE: _RETRY}.get(status)
    if isinstance(halt, QuotaReached):
        headers = {QUOTA: halt.quota} | ({"Retry-After": str(halt.retry_after)} if halt.retry_after else {})
    return problem(status, halt.told, headers, reason_to_explain(halt))


def reason_to_explain(halt: Halt) -> str:
    """Return the reason that has an entry of its own; empty for one that an API server gave."""
    return halt.verdict.reason if halt.verdict.reason in REASONS else ""


def problems_of(errors: list[Any]) -> tuple[Problem, ...]:
    """pydantic's errors, each naming its field and the reason."""
    return tuple(Problem(_field(error["loc"]), reason_of(error)) for error in errors)


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
            if started:  # the length is already sent: only a cut connection shows the failure to the client
                raise
            await unexpected(scope, error)(scope, receive, send)


def unexpected(scope: Scope, error: Exception) -> Response:
    """The answer to an exception that nobody expected, which is logged."""
    log_unexpected(scope, error)
    return problem(500, "an unexpected error; it is in the server's log")


def log_unexpected(scope: Scope, error: Exception) -> None:
    """Log an exception that nobody expected."""
    # As text: a renderer that shows local variables would show passwords.
    trace = "".join(traceback.format_exception(error))
    log.error("request.failed", method=scope["method"], path=scope["path"], traceback=trace)


def refusal_of(request: Request, error: Exception) -> Response | None:
    """Return the answer to an error that the interface expects; None for a bug."""
    match error:
        case Halt():
            return answer_halt(request, error)
        case HTTPException():
            return _answer_http(request, error)
        case ClientDisconnect():
            return problem(400, "body: the client went away")  # nobody reads it
    return None


async def _on_expected(request: Request, error: Exception) -> Response:
    refusal = refusal_of(request, error)
    assert refusal is not None
    return refusal


def _answer_http(request: Request, error: HTTPException) -> Response:
    message = {
        404: f"no such path: {request.url.path}",
        405: f"method {request.method} is not allowed on {request.url.path}",
    }
    bare = error.detail in ("Not Found", "Method Not Allowed")
    return problem(error.status_code, message[error.status_code] if bare else error.detail, error.headers)


def answer_problems(app: Starlette) -> None:
    """Makes every error of the app an `{"error": "..."}`."""
    app.add_exception_handler(Halt, _on_expected)
    app.add_exception_handler(HTTPException, _on_expected)
    app.add_exception_handler(ClientDisconnect, _on_expected)
    app.add_middleware(UnexpectedErrors)
