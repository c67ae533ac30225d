"""Answers that are made without waiting, in the event loop: they need no task, no middleware and no Request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.types import Scope, Send

Headers = Sequence[tuple[bytes, bytes]]


class ReadyAnswer(NamedTuple):
    """An answer, as it is sent."""

    status: int
    headers: Headers
    body: bytes

    def with_header(self, header: tuple[bytes, bytes]) -> ReadyAnswer:
        """Return the answer with one more header."""
        return self._replace(headers=[*self.headers, header])

    async def send(self, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


AnswerNow = Callable[[Scope], ReadyAnswer | None]
"""Answers a request at once; None leaves it to the application."""


def not_now(_: Scope) -> None:
    """Leave every request to the application."""


PART_NOW = "tenantry.part"
"""In the scope of a request whose connection takes parts of an answer without end at once: a PartNow."""
PartNow = Callable[[bytes], bool]
"""Sends a part, as `as_part` writes it, if nothing has to be waited for. False: it was not sent."""


def as_part(data: bytes) -> bytes:
    """Return data as a part of an answer whose length is unknown, by HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)
