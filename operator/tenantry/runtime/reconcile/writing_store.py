"""The Store as the runtime and the facade use it: every write is absorbed by the cache before it is answered."""

from __future__ import annotations

from collections.abc import Awaitable

from tenantry.model.facts import Caller
from tenantry.model.resource import FINALIZER, Document, Held, Ref
from tenantry.ports import Store
from tenantry.runtime.cache import Cache


class WritingStore:
    """Store that keeps the cache abreast. `origin`: the pass on whose behalf it writes, which its own writes do not wake."""

    def __init__(self, store: Store, cache: Cache, origin: Ref | None = None) -> None:
        self._store = store
        self._cache = cache
        self._origin = origin

    def on_behalf_of(self, origin: Ref) -> WritingStore:
        """The same store for one pass."""
        return WritingStore(self._store, self._cache, origin)

    def as_(self, caller: Caller) -> WritingStore:
        return WritingStore(self._store.as_(caller), self._cache, self._origin)

    def dry_run(self) -> Store | None:
        return self._store.dry_run()

    async def get(self, ref: Ref) -> Document:
        return await self._absorb(self._store.get(ref))

    async def create(self, document: Document) -> Document:
        stored = await self._absorb(self._store.create(document))
        if FINALIZER in stored["metadata"].get("finalizers", ()):
            self._cache.confirmed.add(stored["metadata"]["uid"])
        return stored

    async def replace(self, document: Document, version: str) -> Document:
        return await self._absorb(self._store.replace(document, version))

    async def set_status(self, held: Held, status: Document) -> Document:
        return await self._absorb(self._store.set_status(held, status))

    async def set_finalizers(self, held: Held, names: tuple[str, ...]) -> Document:
        stored = await self._store.set_finalizers(held, names)
        return self._take(stored, removed=_deleting(stored) and not _held_back(stored))

    async def delete(self, held: Held) -> Document:
        stored = await self._store.delete(held)
        return self._take(stored, removed=not _held_back(stored))

    async def _absorb(self, writing: Awaitable[Document]) -> Document:
        return self._take(await writing, removed=False)

    def _take(self, stored: Document, *, removed: bool) -> Document:
        if removed:
            self._cache.remove(stored, self._origin)
        else:
            self._cache.absorb(stored, self._origin)
        return stored


def _deleting(document: Document) -> bool:
    return bool(document["metadata"].get("deletionTimestamp"))


def _held_back(document: Document) -> bool:
    """Return True if a deletion waits for somebody. A cluster's namespace also waits by its spec."""
    return bool(document["metadata"].get("finalizers") or (document.get("spec") or {}).get("finalizers"))


def without_finalizer(names: tuple[str, ...]) -> tuple[str, ...]:
    """The finalizers of others."""
    return tuple(name for name in names if name != FINALIZER)
