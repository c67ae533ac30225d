"""The newest changes of each kind, kept in memory for those who watch."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import takewhile
from typing import Literal, NamedTuple

from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Expired
from tenantry.ports import Event

Decode = Callable[[bytes], Document]
MOST_BYTES = 16 << 20
"""Bytes of the changes that are kept of one kind: who writes large objects again and again fills no memory of others."""
RESTS_S = 10.0
"""Seconds without a change of a kind after which those are dropped that all its watchers have seen."""


class LoggedEvent(NamedTuple):
    """One committed change. body: the document as the store keeps it."""

    version: int
    ref: Ref
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    body: bytes


class EventLog:
    """Keeps `keep` changes of each kind, or fewer if they are large, and always the last; belongs to one event loop.

    They are there for watchers that lag behind, so that a kind at rest keeps only its last one. It keeps all while nobody
    watches it: whoever has listed it is about to.

    It is not durable: after a restart a watcher's version is Expired and it lists again, as it must anyway to fill its cache.
    """

    def __init__(self, start: int, keep: int, decode: Decode, rests_s: float = RESTS_S) -> None:
        self._keep = keep
        self._rests_s = rests_s
        self._entries: defaultdict[str, deque[LoggedEvent]] = defaultdict(deque)
        self._sizes: defaultdict[str, int] = defaultdict(int)
        self._trimmed: defaultdict[str, int] = defaultdict(lambda: start)
        self._watching: defaultdict[str, dict[asyncio.Event, int]] = defaultdict(dict)
        """The watchers of each kind, with the version that each has seen."""
        self._decode = decode

    def publish(self, entry: LoggedEvent) -> None:
        """Adds a change, newer than all before, and wakes the watchers of its kind."""
        kind = entry.ref.kind
        entries = self._entries[kind]
        entries.append(entry)
        self._sizes[kind] += len(entry.body)
        while len(entries) > self._keep or (len(entries) > 1 and self._sizes[kind] > MOST_BYTES):
            self._drop_oldest(kind)
        for news in self._watching[kind]:
            news.set()

    async def watch(self, kind: str, after: int) -> AsyncIterator[Event]:
        """Every change after that version. Raises Expired, also for a watcher that fell behind what is kept."""
        news, seen = asyncio.Event(), self._watching[kind]
        seen[news] = after
        try:
            while True:
                news.clear()
                for entry in self._after(kind, seen[news]):
                    yield Event(entry.type, entry.ref, str(entry.version), partial(self._decode, entry.body))
                    seen[news] = entry.version
                await self._next(kind, news)
        finally:
            del seen[news]

    async def _next(self, kind: str, news: asyncio.Event) -> None:
        """Wait for the next change, and drop what all have seen if it does not come soon."""
        try:
            async with asyncio.timeout(self._rests_s):
                await news.wait()
        except TimeoutError:
            self._drop_seen(kind)
            await news.wait()

    def _drop_seen(self, kind: str) -> None:
        entries, seen = self._entries[kind], min(self._watching[kind].values())
        while len(entries) > 1 and entries[0].version <= seen:
            self._drop_oldest(kind)

    def _drop_oldest(self, kind: str) -> None:
        oldest = self._entries[kind].popleft()
        self._sizes[kind] -= len(oldest.body)
        self._trimmed[kind] = oldest.version

    def _after(self, kind: str, version: int) -> list[LoggedEvent]:
        if version < self._trimmed[kind]:
            raise Expired(f"changes of {kind} after version {version} are no longer kept")
        fresh = list(takewhile(lambda entry: entry.version > version, reversed(self._entries[kind])))
        fresh.reverse()
        return fresh
