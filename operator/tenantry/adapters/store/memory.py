"""Objects in memory: for tests, what-if runs and validation. It loses everything at exit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from tenantry.adapters.store.embedded import (
    EVENTS_KEPT,
    Clock,
    EmbeddedStore,
    JsonCodec,
    Ledger,
    system_clock,
)
from tenantry.adapters.store.event_log import EventLog
from tenantry.adapters.store.semantics import Request, StoreAdmission
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, Ref


class MemoryRows:
    """Rows in a dict a kind."""

    def __init__(self) -> None:
        self.kinds: dict[str, dict[Ref, bytes]] = {}

    def get(self, ref: Ref) -> bytes | None:
        return self.kinds.get(ref.kind, {}).get(ref)

    def put(self, ref: Ref, body: bytes) -> None:
        self.kinds.setdefault(ref.kind, {})[ref] = body

    def remove(self, ref: Ref) -> None:
        del self.kinds[ref.kind][ref]

    def inside(self, namespace: str) -> list[Ref]:
        return [ref for rows in self.kinds.values() for ref in rows if ref.namespace == namespace]


class MemoryStore(EmbeddedStore):
    """Store and Feed in memory; belongs to one event loop."""

    def __init__(
        self,
        admission: StoreAdmission,
        *,
        clock: Clock = system_clock,
        events_kept: int = EVENTS_KEPT,
        bodies: Iterable[tuple[Ref, bytes]] = (),
        version: int = 0,
        breathe: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """bodies: objects that are there from the start, as JSON with metadata; version: the newest of theirs. breathe: called
        before each write, for a long piece of work that never waits.
        """
        self._breathe = breathe
        self._codec = JsonCodec()
        self._rows = MemoryRows()
        for ref, body in bodies:
            self._rows.put(ref, body)
        self._ledger = Ledger(self._rows, self._codec, admission, clock, version)
        self._ledger.begin(version)
        self._ledger.found()
        self._log = EventLog(self._ledger.version, events_kept, self._codec.decode)

    @property
    def version(self) -> str:
        return str(self._ledger.version)

    async def submit(self, request: Request, caller: Caller | None) -> Document:
        if self._breathe is not None:
            await self._breathe()
        self._ledger.begin(self._ledger.version)
        document, entry = self._ledger.perform(request, caller)
        if entry is not None:
            self._log.publish(entry)
        return document

    async def inside(self, namespace: str) -> list[Ref]:
        return self._rows.inside(namespace)

    async def close(self) -> None:
        """Nothing to release."""

    async def _row(self, ref: Ref) -> bytes | None:
        return self._rows.get(ref)

    async def _rows_of(self, kind: str) -> tuple[list[bytes], int]:
        rows = self._rows.kinds.get(kind, {})
        return [rows[ref] for ref in sorted(rows)], self._ledger.version
