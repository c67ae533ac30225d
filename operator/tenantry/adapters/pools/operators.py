"""The operator's commands over HTTP, to a pool and to an engine that moves: who may give them, and how one is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import orjson
from starlette.requests import Request
from starlette.responses import Response

from tenantry.adapters.pools.verdicts import refusal_body
from tenantry.model.verdicts import Forbidden, Halt, Invalid, Problem, Unauthorized, unforeseen
from tenantry.rest.auth.sign_in import Bearer, credentials_of
from tenantry.rest.auth.tokens import Claims
from tenantry.rest.problems import log_unexpected, status_of


class OperatorKeys(Protocol):
    """The public keys of the platform."""

    def verify(self, token: str, audience: str) -> Claims:
        """The claims of a token for that audience. Raises Unauthorized."""


async def answered(
    request: Request, keys: OperatorKeys, audience: str, what: str, carry_out: Callable[[], Awaitable[Response]]
) -> Response:
    """Return the answer to a command of the operator, or its refusal. what: the name of a body that fits, for people."""
    try:
        _check_operator(request, keys, audience)
        return await carry_out()
    except Halt as halt:
        return _refusal(halt)
    except (KeyError, TypeError, ValueError) as error:
        return _refusal(Invalid((Problem("body", f"is not {what}: {type(error).__name__}: {error}"),)))
    except Exception as bug:  # noqa: BLE001 - it is logged
        log_unexpected(request.scope, bug)
        return _refusal(Halt(unforeseen(bug)))


def _check_operator(request: Request, keys: OperatorKeys, audience: str) -> None:
    """Raises Unauthorized, Forbidden."""
    match credentials_of(request):
        case Bearer(token):
            if keys.verify(token, audience)["sub"] != "operator":
                raise Forbidden("only the platform's operator may ask this")
        case _:
            raise Unauthorized("a token of the platform is needed")


def _refusal(halt: Halt) -> Response:
    return Response(orjson.dumps(refusal_body(halt)), status_of(halt, conditional=False), media_type="application/json")
