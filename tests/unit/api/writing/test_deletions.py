"""Deletions by REST."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from starlette.requests import Request

from tenantry.adapters.store.memory import MemoryStore
from tenantry.api.writing.writes import remove
from tenantry.kinds.admission import Admission
from tenantry.model.facts import Caller
from tenantry.model.resource import API_VERSION, Document, Ref, held_of
from tenantry.model.verdicts import Invalid, NotFound
from tenantry.rest.bodies import invalid
from tenantry.runtime.reconcile.writing_store import WritingStore

TENANT = {"apiVersion": API_VERSION, "kind": "Tenant", "metadata": {"name": "acme"}, "spec": {"displayName": "Acme"}}
ACME = Ref("Tenant", "", "acme")
CALLER = Caller("ann", "ann", "SUPERUSER")


class EditedFirst(MemoryStore):
    """Somebody protects the object just before the first write to it arrives."""

    edited = False

    async def replace(self, document: Document, resource_version: str) -> Document:
        if not self.edited:
            self.edited = True
            current = await self.get(ACME)
            protected = {**current, "spec": {**current["spec"], "deletionProtection": True}}
            await super().replace(protected, held_of(current).version)
        return await super().replace(document, resource_version)


def refuse_protected(document: Document) -> None:
    if document["spec"].get("deletionProtection"):
        raise invalid("", "it is protected")


def test_what_is_protected_while_its_deletion_is_written_stays() -> None:
    async def attempt() -> Any:
        store = EditedFirst(Admission())
        await store.create(TENANT)
        with pytest.raises(Invalid, match="it is protected"):
            await remove(cast(WritingStore, store), Request({"type": "http", "headers": []}), ACME, CALLER, refuse_protected)
        return await store.get(ACME)

    assert "deletionTimestamp" not in asyncio.run(attempt())["metadata"]


def test_what_is_not_protected_goes() -> None:
    async def attempt() -> None:
        store = MemoryStore(Admission())
        await store.create(TENANT)
        await remove(cast(WritingStore, store), Request({"type": "http", "headers": []}), ACME, CALLER, refuse_protected)
        with pytest.raises(NotFound):
            await store.get(ACME)

    asyncio.run(attempt())
