"""The stores that the contract holds for: one row each. A row yields something that is both Store and Feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tenantry.adapters.store.embedded import EmbeddedStore
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.model.resource import Document

CLUSTER_SCOPED = ("Namespace", "Region", "Tenant")
WITHOUT_STATUS = ("Namespace", "Secret", "Operation")


class OpenAdmission:
    """Admits every document as it is: the contract is about storing."""

    def admit(self, document: Document, old: Document | None) -> Document:
        return document

    def namespaced(self, kind: str) -> bool:
        return kind not in CLUSTER_SCOPED

    def has_status(self, kind: str) -> bool:
        return kind not in WITHOUT_STATUS


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[EmbeddedStore]:
    yield MemoryStore(OpenAdmission())


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[EmbeddedStore]:
    store = await SqliteStore.open(folder, OpenAdmission())
    try:
        yield store
    finally:
        await store.close()


STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[EmbeddedStore]]] = {"memory": memory, "sqlite": sqlite}
