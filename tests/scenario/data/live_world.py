"""A client of the changes of a table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from tests.scenario.data_world import DATA
from tests.support.patience import DEADLINE_S


@dataclass
class Follower:
    """The events of a stream. events: name and data; last: the id of the last one; status: of the answer."""

    status: int
    events: list[tuple[str, Any]] = field(default_factory=list)
    last: str = ""
    closed: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, count: int, seconds: float = DEADLINE_S) -> list[tuple[str, Any]]:
        """The events, once there are so many."""
        async with asyncio.timeout(seconds), self.changed:
            await self.changed.wait_for(lambda: len(self.events) >= count)
        return self.events

    async def end(self, seconds: float = DEADLINE_S) -> list[tuple[str, Any]]:
        """The events, once the stream has ended."""
        async with asyncio.timeout(seconds), self.changed:
            await self.changed.wait_for(lambda: self.closed)
        return self.events

    async def read(self, answer: httpx.Response) -> None:
        """Read until the end."""
        about: dict[str, str] = {}
        try:
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if line:
                    about[name] = value
                    continue
                self.last = about.get("id", self.last)
                if "data" in about:
                    self.events.append((about.get("event", ""), orjson.loads(about["data"])))
                about = {}
                async with self.changed:
                    self.changed.notify_all()
        except httpx.RemoteProtocolError:
            pass
        self.closed = True
        async with self.changed:
            self.changed.notify_all()


@asynccontextmanager
async def following(client: httpx.AsyncClient, table: str, last: str = "", data: str = DATA) -> AsyncIterator[Follower]:
    """Listen to a table. last: the Last-Event-ID; data: the path of the app's tables."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
    async with client.stream("GET", f"{data}/{table}/changes", headers=headers, timeout=60) as answer:
        follower = Follower(answer.status_code)
        reading = asyncio.create_task(follower.read(answer))
        try:
            if answer.status_code == 200 and not last:
                await follower.until(1)
            yield follower
        finally:
            reading.cancel()
