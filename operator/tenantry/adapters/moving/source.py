"""An engine with a pod of its own that leaves it: the operator's commands beside the interface of the engine."""

from __future__ import annotations

from typing import Any, Protocol

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.adapters.moving.leaving import LeavingEngine
from tenantry.adapters.moving.wire import packed_response
from tenantry.adapters.pools.verdicts import refusal_body
from tenantry.model.verdicts import Forbidden, Halt, Invalid, Problem, Unauthorized, unforeseen
from tenantry.rest.auth.sign_in import Bearer, credentials_of
from tenantry.rest.auth.tokens import Claims
from tenantry.rest.bodies import json_response, read_bytes
from tenantry.rest.problems import log_unexpected, status_of

PREFIX = "/move/v1/"


class PlatformTokens(Protocol):
    """The public keys of the platform."""

    def verify(self, token: str, audience: str) -> Claims:
        """The claims of a token for that audience. Raises Unauthorized."""


def audience_of_move(id_: str) -> str:
    """Return the audience of the operator's tokens for the move of an engine."""
    return f"move:{id_}"


class MovableEngine:
    """The ASGI application of an engine, and of its move. id_: of the environment."""

    def __init__(self, engine: ASGIApp, leaving: LeavingEngine, id_: str, keys: PlatformTokens) -> None:
        self._engine = engine
        self._leaving = leaving
        self._id = id_
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._engine(scope, receive, send)
            return
        await (await self._answer(Request(scope, receive)))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            self._check_operator(request)
            match request.method, request.url.path.removeprefix(PREFIX):
                case "POST", "pack":
                    return packed_response(await self._leaving.pack())
                case "POST", verb:
                    return json_response(await command(self._leaving, verb, orjson.loads(await read_bytes(request))))
            raise Invalid((Problem("method", "must be POST"),))
        except Halt as halt:
            return refused(halt)
        except (KeyError, TypeError, ValueError) as error:
            return refused(Invalid((Problem("body", f"is not of a move: {type(error).__name__}: {error}"),)))
        except Exception as bug:  # noqa: BLE001 - it is logged
            log_unexpected(request.scope, bug)
            return refused(Halt(unforeseen(bug)))

    def _check_operator(self, request: Request) -> None:
        """Raises Unauthorized, Forbidden."""
        match credentials_of(request):
            case Bearer(token):
                if self._keys.verify(token, audience_of_move(self._id))["sub"] != "operator":
                    raise Forbidden("only the platform's operator may ask this")
            case _:
                raise Unauthorized("a token of the platform is needed")


async def command(leaving: LeavingEngine, verb: str, body: Any) -> dict[str, Any]:
    """Carry out a command to the place that an engine leaves. Raises Halt, KeyError, OSError."""
    match verb:
        case "freeze":
            return {"token": await leaving.freeze()}
        case "give":
            await leaving.give(str(body["token"]))
        case "thaw":
            await leaving.thaw(cancelled=body["cancelled"] is True)
        case _:
            raise Invalid((Problem("path", "must name a command of a move"),))
    return {}


def refused(halt: Halt) -> Response:
    """Return the refusal as the operator takes it up."""
    return Response(orjson.dumps(refusal_body(halt)), status_of(halt, conditional=False), media_type="application/json")
