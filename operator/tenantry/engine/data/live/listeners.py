"""Those who listen to one table: each has its own line of events, and is dropped when it does not read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tenantry.engine.data.live.log import Epoch, id_of
from tenantry.engine.data.live.rendering import RowEvent, heartbeat
from tenantry.rest.answers import PartNow, as_part

MOST_WAITING = 4 << 20
"""Bytes that wait for a listener, who is dropped beyond it."""

END_S = 5.0
"""Seconds that a listener has to read the end of its stream."""


@dataclass(frozen=True)
class EventBatch:
    """Events of one table that are sent together, rendered once for all who listen."""

    events: Sequence[RowEvent]

    @cached_property
    def data(self) -> bytes:
        """All of them."""
        return b"".join([event.data for event in self.events])

    @cached_property
    def part(self) -> bytes:
        """All of them, as a connection takes them."""
        return as_part(self.data)

    def is_behind(self, position: int) -> bool:
        """Return True if all of them are behind a position."""
        return position < self.events[0].seq

    def behind(self, position: int) -> bytes:
        """The events behind a position."""
        if self.is_behind(position):
            return self.data
        return b"".join([event.data for event in self.events if event.seq > position])


@dataclass(eq=False)
class Listener:
    """One client. after: the position of the log behind which it wants events. ended: the reason, once it is to be closed.

    cut: closes the connection at once. now: sends what its connection takes at once.
    """

    after: int = 0
    ended: str | None = None
    cut: Callable[[], object] | None = None
    now: PartNow | None = None
    _waiting: deque[bytes] = field(default_factory=deque)
    _bytes: int = 0
    _woken: asyncio.Future[None] | None = None

    def put(self, chunk: EventBatch) -> None:
        """Hand over events. They are sent at once if nothing is before them, and by the listener's task otherwise."""
        if self.ended is not None:
            return
        if self._is_idle and self.now is not None and chunk.is_behind(self.after) and self.now(chunk.part):
            return
        data = chunk.behind(self.after)
        if not data:
            return
        if self._waiting and self._bytes + len(data) > MOST_WAITING:
            self.end("it did not read")
            self._cut()
            return
        self._waiting.append(data)
        self._bytes += len(data)
        self._wake()

    def end(self, reason: str) -> None:
        """Close it, after what waits, but in END_S at the latest. The first reason counts."""
        if self.ended is None:
            self.ended = reason
            asyncio.get_running_loop().call_later(END_S, self._cut)
        self._wake()

    def _cut(self) -> None:
        if self.cut is not None:
            self.cut()

    def beat(self, data: bytes) -> None:
        """Send a heartbeat, unless events wait: a client that listens to a quiet table keeps its connection and its id."""
        if not self._waiting and self.ended is None:
            self._waiting.append(data)
            self._wake()

    async def next(self) -> bytes | None:
        """The events that wait, once there are any. None at the end."""
        if not self._waiting and self.ended is None:
            self._woken = asyncio.get_running_loop().create_future()
            await self._woken
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return data or None

    @property
    def _is_idle(self) -> bool:
        """Return True if its task waits for events, with all of them sent."""
        return self._woken is not None and not self._woken.done() and not self._waiting

    def _wake(self) -> None:
        # A future, and no event with a timeout: a thousand listeners wake many times a second.
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


@dataclass(eq=False)
class Audience:
    """The listeners of one table in one epoch."""

    epoch: Epoch
    listeners: set[Listener] = field(default_factory=set)

    def beat(self, position: int) -> None:
        """Send all a heartbeat."""
        data = heartbeat(self.id(position))
        for listener in self.listeners:
            listener.beat(data)

    def end(self, reason: str) -> None:
        """Close all."""
        for listener in self.listeners:
            listener.end(reason)

    def id(self, position: int) -> str:
        """The id of a position."""
        return id_of(self.epoch.id, position)
