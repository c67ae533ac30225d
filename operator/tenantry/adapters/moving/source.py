"""An engine with a pod of its own: the operator's commands for its move, beside the interface of the engine."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.adapters.moving.leaving import LeavingEngine
from tenantry.adapters.moving.wire import earlier_copy, packed_response
from tenantry.adapters.pools.operators import OperatorKeys, answered
from tenantry.model.verdicts import Halt, Invalid, Problem, Waiting
from tenantry.rest.bodies import json_response, read_bytes

PREFIX = "/move/v1/"
ARRIVING = ("look", "blocks", "receive", "take", "cancel")
"""The commands to a pod into which an engine comes. Sent again, they find it there."""


def audience_of_move(id_: str) -> str:
    """Return the audience of the operator's tokens for the move of an engine."""
    return f"move:{id_}"


class MovableEngine:
    """The ASGI application of an engine, and of its move. id_: of the environment."""

    def __init__(self, engine: ASGIApp, leaving: LeavingEngine, id_: str, keys: OperatorKeys) -> None:
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
        async def carry_out() -> Response:
            match request.method, request.url.path.removeprefix(PREFIX):
                case "POST", "pack":
                    return packed_response(await self._leaving.pack(await earlier_copy(request)))
                case "POST", verb if verb in ARRIVING:
                    return here(verb, self._id)
                case "POST", verb:
                    return json_response(await command(self._leaving, verb, orjson.loads(await read_bytes(request))))
            raise Invalid((Problem("method", "must be POST"),))

        return await answered(request, self._keys, audience_of_move(self._id), "of a move", carry_out)


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


def here(verb: str, id_: str) -> Response:
    """Return the answer of an engine that is served in its pod to a command of a move into it. Raises Halt (EngineThere)."""
    match verb:
        case "look":
            return json_response({"coming": ""})
        case "take":
            return json_response({})
    raise arrived(id_)


def arrived(id_: str) -> Halt:
    """Return the refusal of a step towards a pod in which the engine runs."""
    return Halt(Waiting("EngineThere", f"the engine {id_} runs in this pod already"))
