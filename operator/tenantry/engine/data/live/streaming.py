"""A table's changes as an answer that lasts, and the places for such answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tenantry.engine.data.live import log
from tenantry.engine.data.live.feed import FeedDatabase, RowFeed
from tenantry.engine.data.live.listeners import Audience, Listener
from tenantry.engine.data.live.log import Epoch
from tenantry.engine.data.live.rendering import event
from tenantry.engine.data.live.rights import ListenerRights, Look
from tenantry.engine.data.reading.export import EXPORTS
from tenantry.model.verdicts import Halt
from tenantry.rest.answers import PART_NOW
from tenantry.rest.fairness.lanes import Lane
from tenantry.rest.fairness.streams import Most, Streams

AT_ONCE = 16
"""Clients whose rights are looked up at the same time when they come."""
RETRY_MS = 2000
"""The pause before a client connects again."""
LISTENERS = Streams(Most(in_all=10_000, of_tenant=4_000, of_engine=2_000))
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_GAP = "changes before this one may be missing: read the table again"


class Live:
    """The streams of one engine: changes of its tables, for those who listen, and exports.

    entering: turns of those who come to listen, who may be many at once.
    """

    def __init__(self, transactions: FeedDatabase, lane: Lane, streams: Streams = LISTENERS) -> None:
        self.feed = RowFeed(transactions)
        self.rights = ListenerRights()
        self.entering = asyncio.Semaphore(AT_ONCE)
        self._lane = lane
        self._streams = streams

    def end(self) -> None:
        """Close all who listen: the engine stops."""
        self.feed.end("the engine stops")

    def enter_export(self) -> Callable[[], None]:
        """Take a place for an export. Return the call that gives it back. Raises TooManyStreams."""
        return EXPORTS.enter(self._lane.tenant, self._lane.name)

    async def listen(self, epoch: Epoch, given: str, key: bytes, look: Look) -> ChangeStream:
        """Return the answer to a client. given: its Last-Event-ID; key: of its credentials; look: looks its rights up.

        Raises TooManyStreams, Halt.
        """
        leave = self._streams.enter(self._lane.tenant, self._lane.name)
        listener = Listener()
        try:
            audience, position = await self.feed.join(epoch, listener)
        except BaseException:
            leave()
            raise
        self.rights.add(key, look, listener)

        def ended() -> None:
            self.rights.remove(key, listener)
            self.feed.leave(audience, listener)
            leave()

        return ChangeStream(self.feed, audience, listener, _Beginning.of(epoch, given, position), ended)


@dataclass(frozen=True)
class _Beginning:
    """The first bytes, and the positions between which the log is read before anything else: equal for none."""

    data: bytes
    after: int
    until: int

    @classmethod
    def of(cls, epoch: Epoch, given: str, position: int) -> _Beginning:
        retry = f"retry: {RETRY_MS}\n".encode()
        if not given:
            return cls(retry + event("ready", b"{}", log.id_of(epoch.id, position)), position, position)
        after = log.resumable(epoch, given, position)
        if after is None:
            return cls(retry + _reset(epoch, position), position, position)
        return cls(retry + b"\n", after, position)


class ChangeStream(Response):
    """The changes as server-sent events. A client that leaves, or does not read, ends it."""

    media_type = "text/event-stream"

    def __init__(
        self, feed: RowFeed, audience: Audience, listener: Listener, beginning: _Beginning, ended: Callable[[], None]
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)
        self._feed, self._audience, self._listener = feed, audience, listener
        self._beginning, self._ended = beginning, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sender = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_gone(receive))
        self._listener.cut, self._listener.now = sender.cancel, scope.get(PART_NOW)
        try:
            await asyncio.wait((sender, gone), return_when=asyncio.FIRST_COMPLETED)
            if sender.done() and not sender.cancelled():
                sender.result()
        finally:
            self._listener.cut = self._listener.now = None
            self._ended()
            sender.cancel()
            gone.cancel()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send(_body(self._beginning.data))
        try:
            await self._catch_up(send)
        except Halt:
            self._listener.end("the log cannot be read now")
        while (data := await self._listener.next()) is not None:
            await send(_body(data))
        end = event("end", orjson.dumps({"reason": self._listener.ended}))
        await send(_body(end, more=False))

    async def _catch_up(self, send: Send) -> None:
        after, until = self._beginning.after, self._beginning.until
        while after < until:
            events = await self._feed.since(self._audience.epoch, after, until)
            if events is None:
                await send(_body(_reset(self._audience.epoch, until)))
            if not events:
                return
            await send(_body(b"".join([one.data for one in events])))
            after = events[-1].seq


def _reset(epoch: Epoch, position: int) -> bytes:
    return event("reset", orjson.dumps({"reason": _GAP}), log.id_of(epoch.id, position))


def _body(data: bytes, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
