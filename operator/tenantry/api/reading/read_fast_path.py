"""A fast path for frequent reads, past the framework: one look-up, answered from prepared bytes.

Other requests go to the same endpoints through the framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.rest.problems import refusal_of, unexpected
from tenantry.rest.routes import Endpoint, refuse_unknown


class Direct(NamedTuple):
    """An endpoint, the path that counts and logs name it by, and its query parameters."""

    path: str
    endpoint: Endpoint
    known: frozenset[str] | None = frozenset()


class DirectReads:
    """Answers GETs of `lists` (by path) and of one item below `items` (by the path before its id)."""

    def __init__(self, app: ASGIApp, lists: Mapping[str, Direct], items: Mapping[str, Direct]) -> None:
        self._app = app
        self._lists = lists
        self._items = items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        direct = self._find(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        if direct is not None:
            scope["route"] = direct
            request = Request(scope, receive, send)
            try:
                refuse_unknown(scope, direct.known)
                response = await direct.endpoint(request)
            except Exception as error:  # noqa: BLE001 - a bug is answered and logged
                response = refusal_of(request, error) or unexpected(scope, error)
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
