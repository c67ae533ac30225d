"""Calls of the functions that serve REST, in the name of the session's user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlencode

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from tenantry.api.facade_context import PlanAnswered
from tenantry.console.http.sessions import Sessions
from tenantry.console.views.actions import ActionPlan
from tenantry.model.verdicts import Halt, Unauthorized

Endpoint = Callable[[Request], Awaitable[Response]]


class Call:
    """One call. id: of the object, `""` for a list's; body: JSON."""

    def __init__(
        self, sessions: Sessions, method: str, endpoint: Endpoint, id_: str = "", body: bytes = b"",
        content_type: str = "application/json", **query: str,
    ) -> None:  # fmt: skip
        self._sessions = sessions
        self._method = method
        self._endpoint = endpoint
        self._id = id_
        self._body = body
        self._query = query
        self._type = content_type

    async def make(self, request: Request, **headers: str) -> Response:
        """The answer of the function. headers: with `_` for `-`. Raises what it raises."""
        return await self._send(request, headers, {})

    async def plan(self, request: Request, **headers: str) -> ActionPlan:
        """The effects of the call. A refusal is part of the plan. Raises Unauthorized."""
        try:
            return await self.planned(request, **headers)
        except Unauthorized:
            raise
        except Halt as halt:
            return ActionPlan(refusal=halt.told)

    async def planned(self, request: Request, **headers: str) -> ActionPlan:
        """The effects of the call. Raises what it would be refused with."""
        try:
            await self._send(request, headers, {"dryRun": "true"})
        except PlanAnswered as answered:
            plan = orjson.loads(bytes(answered.response.body))
            return ActionPlan(tuple(plan["changes"]), plan["digest"])
        raise AssertionError(f"{self._endpoint} has no plan")

    async def _send(self, request: Request, headers: Mapping[str, str], query: Mapping[str, str]) -> Response:
        signed = self._sessions.signed(request)
        sent = [each for each in signed.scope["headers"] if each[0] not in (b"content-length", b"content-type")]
        sent += [(b"content-type", self._type.encode()), (b"content-length", str(len(self._body)).encode())]
        sent += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        about = {
            "method": self._method,
            "path_params": {"id": self._id, "environmentId": self._id} if self._id else {},
            "query_string": urlencode({**self._query, **query}).encode(),
        }
        scope = {name: value for name, value in signed.scope.items() if name != "state"}
        return await self._endpoint(Request({**scope, **about, "headers": sent}, _carrying(request, self._body)))


def _carrying(request: Request, content: bytes) -> Callable[[], Awaitable[Message]]:
    """Receive the content as the body, and after it the news that the browser has left."""
    body: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        return body.pop() if body else await request.receive()

    return receive
