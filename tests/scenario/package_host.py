"""A host of package files that misbehaves on demand."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = Callable[[Send], Coroutine[Any, Any, None]]


def whole(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """All of it, with its length."""

    async def answer(send: Send) -> None:
        await _start(send, status, {"Content-Length": str(len(body)), **(headers or {})})
        await send({"type": "http.response.body", "body": body})

    return answer


def redirect(location: str, status: int = 302) -> Answer:
    """Somewhere else."""
    return whole(b"", status, {"Location": location})


def cut(body: bytes) -> Answer:
    """The first half, and the end of the connection."""

    async def answer(send: Send) -> None:
        await _start(send, 200, {"Content-Length": str(len(body))})
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        await asyncio.sleep(0)
        raise ConnectionAbortedError("cut, as told")

    return answer


def endless(piece: bytes, pause: float = 0.0) -> Answer:
    """The same piece again and again, without a Content-Length."""

    async def answer(send: Send) -> None:
        await _start(send, 200, {})
        while True:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(pause)

    return answer


def held(body: bytes, goes_on: asyncio.Event) -> Answer:
    """The first byte, and the rest once that is set."""

    async def answer(send: Send) -> None:
        await _start(send, 200, {"Content-Length": str(len(body))})
        await send({"type": "http.response.body", "body": body[:1], "more_body": True})
        await goes_on.wait()
        await send({"type": "http.response.body", "body": body[1:]})

    return answer


class PackageHost:
    """Answers each path with its answers in turn, the last one again and again; 404 where it has none."""

    def __init__(self) -> None:
        self.answers: defaultdict[str, list[Answer]] = defaultdict(list)
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Path and headers of each request."""

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    @property
    def http(self) -> Any:
        """The ASGI application."""

        async def serve(scope: Any, receive: Any, send: Send) -> None:
            await self._serve(scope, receive, send)

        return serve

    async def _serve(self, scope: Any, receive: Any, send: Send) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        self.asked.append((scope["path"], headers))
        answers = self.answers[scope["path"]]
        answer = whole(b"no", 404) if not answers else answers.pop(0) if len(answers) > 1 else answers[0]
        working = asyncio.create_task(answer(send))
        leaving = asyncio.create_task(_gone(receive))
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not working.done():
            working.cancel()
            return
        working.result()


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
