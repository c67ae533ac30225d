"""Asking for another look at an object, as a person's `tenantry reconcile` does."""

from __future__ import annotations

from datetime import datetime

from tenantry.model.resource import RECONCILE_REQUESTED, Document, Ref, format_time
from tenantry.ports import Store
from tenantry.runtime.reconcile.revising import revise


async def ask_to_look(store: Store, ref: Ref, at: datetime) -> None:
    """Raises Conflict when it is written all the time, NotFound."""

    def asked(document: Document) -> Document:
        metadata = document["metadata"]
        annotations = {**(metadata.get("annotations") or {}), RECONCILE_REQUESTED: format_time(at)}
        return {**document, "metadata": {**metadata, "annotations": annotations}}

    await revise(store, ref, asked)
