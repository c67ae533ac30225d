"""A list that is sent in parts: each part is a page, read in a transaction of its own when the client has taken the last one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenantry.engine.data.reading.formats import Format
from tenantry.engine.data.reading.reader import RowPage
from tenantry.model.verdicts import Halt
from tenantry.rest.fairness.streams import Most, Streams

PART_BYTES = 1 << 20
"""A part ends once it has so many bytes."""
EXPORTS = Streams(Most(in_all=256, of_tenant=32, of_engine=16))
Next = Callable[[str], Awaitable[RowPage]]
"""The page behind a `continue` token. Raises Halt, also for a right that is revoked meanwhile."""
_log = structlog.get_logger(__name__)


class RowExport(Response):
    """All rows. It holds neither a thread nor a transaction while the client reads. leave: gives its place back."""

    def __init__(
        self,
        request: Request,
        first: RowPage,
        form: Format,
        headers: Mapping[str, str],
        following: Next,
        leave: Callable[[], None],
    ) -> None:
        self.status_code = 200
        self.background = None
        self.media_type = form.media_type
        self.init_headers(headers)
        self._request, self._page, self._following, self._leave = request, first, following, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._send_all(send)
        except ClientDisconnect:
            pass
        except Halt as halt:
            # The end is missing, and the connection is closed: only so does the client see that rows are missing.
            _log.warning("export.cut", path=scope["path"], reason=halt.verdict.message)
        finally:
            self._leave()

    async def _send_all(self, send: Send) -> None:
        page = self._page
        while True:
            await send({"type": "http.response.body", "body": page.body, "more_body": bool(page.after)})
            if not page.after:
                return
            if await self._request.is_disconnected():
                raise ClientDisconnect
            page = await self._following(page.after)
