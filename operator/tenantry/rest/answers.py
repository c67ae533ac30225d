"""Answers that are made in the event loop before the framework: they need no middleware and no Request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Scope, Send

Headers = Sequence[tuple[bytes, bytes]]


class ReadyAnswer(NamedTuple):
    """An answer, as it is sent."""

    status: int
    headers: Headers
    body: bytes

    async def send(self, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


def ready(response: Response) -> ReadyAnswer:
    """Return a whole response as such an answer."""
    return ReadyAnswer(response.status_code, response.raw_headers, bytes(response.body))


LateAnswer = Callable[[], Coroutine[Any, Any, ReadyAnswer | None]]
"""Makes an answer that waits for a database; None leaves the request to the application. It is called once, or never."""
AnswerNow = Callable[[Scope], ReadyAnswer | LateAnswer | None]
"""Answers a request before the framework; None leaves it to the application."""


def with_header(answer: ReadyAnswer | LateAnswer, header: tuple[bytes, bytes]) -> ReadyAnswer | LateAnswer:
    """Return the answer with one more header."""

    def added(ready: ReadyAnswer) -> ReadyAnswer:
        return ready._replace(headers=[*ready.headers, header])

    async def late() -> ReadyAnswer | None:
        found = await in_time(answer)
        return found and added(found)

    return added(answer) if isinstance(answer, ReadyAnswer) else late


async def in_time(answer: ReadyAnswer | LateAnswer | None) -> ReadyAnswer | None:
    """Return an answer once it is there."""
    return answer if answer is None or isinstance(answer, ReadyAnswer) else await answer()


def not_now(_: Scope) -> None:
    """Leave every request to the application."""


WHOLE_BODY = "tenantry.body"
"""In the scope of a POST whose short body came with its head: the body."""
PART_NOW = "tenantry.part"
"""In the scope of a request whose connection takes parts of an answer without end at once: a PartNow."""
PartNow = Callable[[bytes], bool]
"""Sends a part, as `as_part` writes it, if nothing has to be waited for. False: it was not sent."""


def as_part(data: bytes) -> bytes:
    """Return data as a part of an answer whose length is unknown, by HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)
