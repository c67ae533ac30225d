"""The cache after a write, before any event of it."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import FINALIZER, Document, Held, Ref, held_of, ref_of
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.writing_store import WritingStore

NAMESPACE = Ref("Namespace", "", "tenant-acme")


class Terminating(MemoryStore):
    """Deletes namespaces as a cluster does: they wait by `spec.finalizers` until a controller has emptied them."""

    async def delete(self, held: Held) -> Document:
        marked = await super().delete(held)
        return {**marked, "spec": {"finalizers": ["kubernetes"]}}


@pytest.fixture
def cache() -> Cache:
    return Cache(TYPES)


def namespace(**metadata: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE.name, **metadata}}


async def test_what_is_deleted_at_once_is_gone(cache: Cache) -> None:
    store = WritingStore(MemoryStore(Admission()), cache)
    await store.delete(held_of(await store.create(namespace())))
    assert cache.document(NAMESPACE) is None


async def test_what_waits_for_a_finalizer_is_there_and_deleting(cache: Cache) -> None:
    store = WritingStore(MemoryStore(Admission()), cache)
    marked = await store.delete(held_of(await store.create(namespace(finalizers=["example.com/other"]))))
    assert cache.document(ref_of(marked)) == marked
    await store.set_finalizers(held_of(marked), ())
    assert cache.document(NAMESPACE) is None


async def test_a_namespace_that_a_cluster_still_empties_is_there_and_deleting(cache: Cache) -> None:
    store = WritingStore(Terminating(Admission()), cache)
    await store.delete(held_of(await store.create(namespace())))
    held = cache.document(NAMESPACE)
    assert held is not None and held["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(("finalizers", "confirmed"), [([FINALIZER], True), (["example.com/other"], False), ([], False)])
async def test_what_is_made_with_our_finalizer_need_not_be_read_before_the_first_effect(
    cache: Cache, finalizers: list[str], confirmed: bool
) -> None:
    store = WritingStore(MemoryStore(Admission()), cache)
    made = await store.create(namespace(finalizers=finalizers))
    assert (made["metadata"]["uid"] in cache.confirmed) == confirmed
