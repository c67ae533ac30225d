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


class LoggedEvent(NamedTuple):
    """One committed change. body: the document as the store keeps it."""

    version: int
    ref: Ref
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    body: bytes


class EventLog:
    """Keeps `keep` changes of each kind, or fewer if they are large, and always the last; belongs to one event loop.

    It is not durable: after a restart a watcher's version is Expired and it lists again, as it must anyway to fill its cache.
    """

    def __init__(self, start: int, keep: int, decode: Decode) -> None:
        self._keep = keep
        self._entries: defaultdict[str, deque[LoggedEvent]] = defaultdict(deque)
        self._sizes: defaultdict[str, int] = defaultdict(int)
        self._trimmed: defaultdict[str, int] = defaultdict(lambda: start)
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._decode = decode

    def publish(self, entry: LoggedEvent) -> None:
        """Adds a change, newer than all before, and wakes the watchers of its kind."""
        kind = entry.ref.kind
        entries = self._entries[kind]
        entries.append(entry)
        self._sizes[kind] += len(entry.body)
        while len(entries) > self._keep or (len(entries) > 1 and self._sizes[kind] > MOST_BYTES):
            oldest = entries.popleft()
            self._sizes[kind] -= len(oldest.body)
            self._trimmed[kind] = oldest.version
        for waiting in self._waiting[kind]:
            waiting.set()

    async def watch(self, kind: str, after: int) -> AsyncIterator[Event]:
        """Every change after that version. Raises Expired, also for a watcher that fell behind what is kept."""
        news = asyncio.Event()
        self._waiting[kind].add(news)
        try:
            while True:
                news.clear()
                for entry in self._after(kind, after):
                    yield Event(entry.type, entry.ref, str(entry.version), partial(self._decode, entry.body))
                    after = entry.version
                await news.wait()
        finally:
            self._waiting[kind].discard(news)

    def _after(self, kind: str, version: int) -> list[LoggedEvent]:
        if version < self._trimmed[kind]:
            raise Expired(f"changes of {kind} after version {version} are no longer kept")
        fresh = list(takewhile(lambda entry: entry.version > version, reversed(self._entries[kind])))
        fresh.reverse()
        return fresh
