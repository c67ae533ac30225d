"""The long parts of plans run in threads: the event loop turns while they last."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import DECLARED, TYPES
from tenantry.model.resource import Document, Ref
from tenantry.model.tree import Declared, Place, Tree
from tenantry.ports import Packages
from tenantry.runtime.cache import Cache
from tenantry.runtime.planning.bundles import Incoming
from tenantry.runtime.planning.plan import Remarks, Settle, WhatIf
from tenantry.runtime.planning.planner import Bodies, PlannedPackages, Planner, Scene
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources import sync
from tenantry.runtime.sources.sync import Syncer, decide_sync
from tests.unit.runtime.held_data import no_data

ACME = Ref("Tenant", "", "acme")
WITHIN_S = 30


class Reached(Exception):  # noqa: N818 - it ends a test
    """The long part has been carried out."""


class LongPart:
    """Waits for the event loop to turn. Where the loop itself carries it out, nothing lets it go."""

    def __init__(self) -> None:
        self._began, self._turned = threading.Event(), threading.Event()

    def carry_out(self) -> None:
        self._began.set()
        assert self._turned.wait(WITHIN_S), "the event loop waits for this part"

    async def beside(self, work: Coroutine[Any, Any, Any], meanwhile: Callable[[], None] = lambda: None) -> Any:
        """Return the result of the work, which has this part; the loop turns meanwhile."""
        task = asyncio.create_task(work)
        await asyncio.to_thread(self._began.wait, WITHIN_S)
        meanwhile()
        self._turned.set()
        return await task


@asynccontextmanager
async def no_packages() -> AsyncIterator[PlannedPackages]:
    yield PlannedPackages(cast(Packages, None), cast(Incoming, None))


def tenant(version: int, display: str) -> Document:
    metadata = {"name": "acme", "uid": "uid-acme", "resourceVersion": str(version)}
    made = {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": metadata, "spec": {"displayName": display}}
    return dict(Admission().admit(made, None)) | {"metadata": metadata}


async def nothing(what_if: WhatIf, settle: Settle) -> Remarks:
    raise AssertionError("the plan ends before its edit")


async def test_a_plan_copies_the_platform_as_it_is_at_one_moment_and_in_a_thread() -> None:
    cache, part = Cache(TYPES), LongPart()
    cache.absorb(tenant(1, "before"))
    seen: list[tuple[str, int]] = []

    def what_if(copy: Cache, packages: Packages, bodies: Bodies, version: int) -> WhatIf:
        part.carry_out()
        found = copy.document(ACME)
        assert found is not None and [ref for ref, _ in bodies] == [ACME]
        seen.append((found["spec"]["displayName"], version))
        raise Reached

    planner = Planner(cache, Scene(no_packages, what_if), lambda document: document, lambda: datetime.now(UTC))
    with pytest.raises(Reached):
        await part.beside(planner.edit(nothing, ""), lambda: cache.absorb(tenant(2, "after")))
    assert seen == [("before", 1)]


async def test_a_sync_is_decided_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    part = LongPart()

    def decides(*given: Any) -> Any:
        part.carry_out()
        return decide_sync(*given)

    monkeypatch.setattr(sync, "decide_sync", decides)
    store = MemoryStore(Admission())
    declared = Declared.of({**tenant(1, "new"), "metadata": {"name": "acme"}}, Place("a.yaml", 1, 0))
    subject = Syncer(WritingStore(store, Cache(TYPES)), store, "default", finalized=set(DECLARED), holding=no_data)
    assert len((await part.beside(subject.sync(Tree((declared,))))).created) == 1
