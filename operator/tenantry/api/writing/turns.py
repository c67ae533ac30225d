"""Turns at one object: an edit is made once the platform has looked at the one before it, through whichever replica that came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakValueDictionary

from tenantry.api.reading.waiting import until
from tenantry.model.resource import DROP_DATA_REQUESTED, SUSPEND, Document, Ref
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.revising import revise
from tenantry.runtime.reconcile.writing_store import WritingStore

WAIT_S = 30.0
"""The time that an edit waits for the one before it: as long as a request waits for its own result. A stopped platform may
never reconcile it."""


class _Unsettled(Exception):  # noqa: N818 - it only ends an attempt
    """The object, at that version, was edited and not looked at since."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


class Turns:
    """Queues the edits of each object.

    In this process by a lock. Between replicas by the object itself: only one that the platform has looked at is edited, at
    the version that was read, so of two replicas one is refused and waits.
    """

    def __init__(self, cache: Cache, wait_s: float = WAIT_S) -> None:
        self._cache = cache
        self._wait_s = wait_s
        self._locks: WeakValueDictionary[Ref, asyncio.Lock] = WeakValueDictionary()
        self._given_up: dict[Ref, int] = {}
        """The generation that was looked at last, of objects for which an edit waited in vain."""

    async def revise(self, store: WritingStore, ref: Ref, change: Callable[[Document], Document]) -> tuple[Document, Document]:
        """Make a change as `runtime.revising.revise` does, when its turn has come."""
        lock = self._locks.get(ref)
        if lock is None:
            lock = self._locks[ref] = asyncio.Lock()

        def changed(current: Document) -> Document:
            after = change(current)
            if after is not current and not self._at_rest(ref, current):
                raise _Unsettled(int(current["metadata"]["resourceVersion"]))
            return after

        async with lock:
            while True:
                try:
                    return await revise(store, ref, changed)
                except _Unsettled as unsettled:
                    await self._wait(ref, unsettled.version)

    async def settled(self, ref: Ref) -> None:
        """Wait until the platform has looked at an object that was just written, for as long as an edit waits for its turn."""

        def rested() -> bool | None:
            document = self._cache.document(ref)
            return True if document is not None and looked_at(document) else None

        await until(self._cache, rested, lambda seen: seen.ref == ref, self._wait_s)

    def _at_rest(self, ref: Ref, document: Document) -> bool:
        if looked_at(document):
            self._given_up.pop(ref, None)
            return True
        return self._given_up.get(ref) == _observed(document)

    async def _wait(self, ref: Ref, version: int) -> None:
        """Until the object is at rest in the cache, at that version or a newer one, or is gone."""

        def rested() -> bool | None:
            entry = self._cache.entry(ref)
            if entry is None:
                return True
            return True if entry.version >= version and looked_at(entry.document()) else None

        if not await until(self._cache, rested, lambda seen: seen.ref == ref, self._wait_s):
            document = self._cache.document(ref)
            self._given_up[ref] = _observed(document) if document else 0


def looked_at(document: Document) -> bool:
    """Return True if a reconcile has ended since the edit. Nobody reconciles a suspended object."""
    metadata, status = document["metadata"], document.get("status", {})
    annotations = metadata.get("annotations") or {}
    if document["spec"].get("suspend") or annotations.get(SUSPEND) == "true":
        return True
    asked = annotations.get(DROP_DATA_REQUESTED)
    answered = asked is None or asked == status.get("lastHandledDropDataAt")
    return bool(answered) and _observed(document) >= metadata.get("generation", 0)


def _observed(document: Document) -> int:
    return int(document.get("status", {}).get("observedGeneration", 0))
