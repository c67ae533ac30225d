"""Event streams of a server that ends: they end first, because nobody else ends them."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

EVENTS = b"text/event-stream"


class EndingStreams:
    """An application whose event streams end at once when `end` is called. Other requests finish as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[asyncio.Task[None]] = set()
        self._ended = False

    def end(self) -> None:
        """End all event streams, and each one that begins from now on."""
        self._ended = True
        for task in self._open:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        task = asyncio.current_task()
        assert task is not None
        complete = False

        async def watched(message: Message) -> None:
            nonlocal complete
            await send(message)
            if message["type"] == "http.response.start":
                if _is_stream(message):
                    self._enter(task)
            else:
                complete = not message.get("more_body", False)

        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if not self._ended or task not in self._open:
                raise
            task.uncancel()
        finally:
            held = task in self._open
            self._open.discard(task)
        if held and self._ended and not complete:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _enter(self, task: asyncio.Task[None]) -> None:
        self._open.add(task)
        if self._ended:
            task.cancel()


def _is_stream(start: Message) -> bool:
    return any(name == b"content-type" and value.startswith(EVENTS) for name, value in start["headers"])
