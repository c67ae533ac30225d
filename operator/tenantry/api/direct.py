"""Reads that are asked for most skip the framework: found by one look-up, answered from prepared bytes.

Whatever is not plainly one of them, and every refusal, goes the ordinary way, to the same endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.api.routes import Endpoint
from tenantry.model.verdicts import Halt


class Direct(NamedTuple):
    """An endpoint, and the path that counts and logs name it by."""

    path: str
    endpoint: Endpoint


class DirectReads:
    """Answers GETs of `lists` (by path) and of one item below `items` (by the path before its id)."""

    def __init__(self, app: ASGIApp, lists: Mapping[str, Direct], items: Mapping[str, Direct]) -> None:
        self._app = app
        self._lists = lists
        self._items = items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        direct = self._find(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        if direct is not None:
            try:
                response = await direct.endpoint(Request(scope, receive, send))
            except Halt:
                pass  # nothing is sent yet: asked again, it is refused in the ordinary way
            else:
                scope["route"] = direct
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find(self, scope: Scope) -> Direct | None:
        path: str = scope["path"]
        found = self._lists.get(path)
        if found is not None:
            return found
        collection, _, id_ = path.rpartition("/")
        found = self._items.get(collection)
        if found is not None:
            scope["path_params"] = {"id": id_}
        return found
