"""A feed that lags, repeats, breaks off or shows an older state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.registry import FOLLOWED
from tenantry.model.resource import Document
from tenantry.model.verdicts import Expired
from tenantry.ports import Event


class WatchFault(Enum):
    """The fate of a watch at one event."""

    CUT = "the watch ends before the event"
    CUT_AFTER = "the watch ends after the event"
    DUPLICATED = "the event comes twice, and older ones again"
    EXPIRED = "410: the version is too old"
    STALLED = "the event and all that follow come late"


@dataclass
class FaultyFeed:
    """ports.Feed over a store. at: which event is struck, from 1, of all kinds together; 0: none.

    lag_s: by how much every event is late. stale: the lists of a state that is over, by kind.
    """

    store: MemoryStore
    at: int = 0
    fault: WatchFault = WatchFault.CUT
    lag_s: float = 0.0
    stall_s: float = 0.3
    only: str = ""
    """The kind whose events count; `""`: all."""
    stale: dict[str, tuple[Sequence[Document], str]] = field(default_factory=dict)
    events: int = 0
    struck: bool = False
    _taken: dict[str, int] = field(default_factory=dict)

    async def list(self, kind: str) -> tuple[Sequence[Document], str]:
        """Return a stale list once, then the present one."""
        documents, version = self.stale.pop(kind) if kind in self.stale else await self.store.list(kind)
        self._taken[kind] = int(version)
        return documents, version

    async def pages(self, kind: str) -> AsyncIterator[tuple[Sequence[Document], str]]:
        """The same, an object at a time."""
        documents, version = await self.list(kind)
        for document in documents:
            yield [document], version
        yield [], version

    async def watch(self, kind: str, version: str) -> AsyncIterator[Event]:
        """Pass on what the store says, but for the fault."""
        before: list[Event] = []
        async with aclosing(self._late(kind, version)) as events:
            async for event in events:
                self.events += not self.only or kind == self.only
                counts = self.events == self.at and (not self.only or kind == self.only)
                fault = self.fault if counts else None
                self.struck |= fault is not None
                if fault is WatchFault.CUT:
                    return
                if fault is WatchFault.EXPIRED:
                    raise Expired(f"{kind}: too old resource version")
                if fault is WatchFault.STALLED:
                    await asyncio.sleep(self.stall_s)
                again = [*before[-3:], event] if fault is WatchFault.DUPLICATED else []
                for each in (event, *again):
                    yield each
                before.append(event)
                self._taken[kind] = max(self._taken[kind], int(event.version))
                if fault is WatchFault.CUT_AFTER:
                    return

    async def _late(self, kind: str, version: str) -> AsyncGenerator[Event, None]:
        """Every event at its own time plus the lag, so that one late event does not hold up the next."""
        if not self.lag_s:
            async with aclosing(cast(AsyncGenerator[Event, None], self.store.watch(kind, version))) as events:
                async for event in events:
                    yield event
            return
        due: asyncio.Queue[tuple[float, Event]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        async def receive() -> None:
            async for event in self.store.watch(kind, version):
                due.put_nowait((loop.time() + self.lag_s, event))

        receiving = asyncio.create_task(receive())
        try:
            while True:
                at, event = await due.get()
                await asyncio.sleep(at - loop.time())
                yield event
        finally:
            receiving.cancel()

    def caught_up(self) -> bool:
        """Return whether every watch has shown all that the store has committed."""
        logs = self.store._log._entries
        return all(self._taken.get(kind, 0) >= logs[kind][-1].version for kind in FOLLOWED if logs[kind])
