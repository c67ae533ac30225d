"""CORS: the origins whose pages may call this server. Starlette answers for them; all others get no permission."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.rest.blobs import QUOTA

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
EXPOSED = (
    "Content-Disposition",
    "Content-Range",
    "ETag",
    "Link",
    "Location",
    "Preference-Applied",
    "Retry-After",
    QUOTA,
    "Tenantry-Count",
    "Tenantry-Version",
    "WWW-Authenticate",
)
"""Headers of answers that a page may read, besides those that every page may."""
REMEMBERED_S = 600
"""Seconds for which a browser need not ask again."""


class CrossOrigin:
    """Permits requests from pages of those origins. Cookies are not permitted: pages send a token.

    Every answer says that it depends on the origin, so that no cache gives one origin's answer to another.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)
        self._permitting = CORSMiddleware(
            app,
            allow_origins=tuple(self._origins),
            allow_methods=METHODS,
            allow_headers=("*",),
            expose_headers=EXPOSED,
            max_age=REMEMBERED_S,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def varying(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "origin" not in headers.get("vary", "").lower().replace(" ", "").split(","):
                    headers.add_vary_header("Origin")
            await send(message)

        known = Headers(scope=scope).get("origin") in self._origins
        await (self._permitting if known else self._app)(scope, receive, varying)
