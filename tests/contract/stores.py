"""The stores that the contract holds for: one row each. A row yields something that is both Store and Feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tenantry.adapters.store.embedded import EmbeddedStore
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.kinds.admission import Admission

ADMISSION = Admission()
"""Compiled once: it holds no state."""


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[EmbeddedStore]:
    yield MemoryStore(ADMISSION)


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[EmbeddedStore]:
    store = await SqliteStore.open(folder, ADMISSION)
    try:
        yield store
    finally:
        await store.close()


STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[EmbeddedStore]]] = {"memory": memory, "sqlite": sqlite}
