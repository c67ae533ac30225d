"""Asking for another look at an object, as a person's `tenantry reconcile` does."""

from __future__ import annotations

from datetime import datetime

from tenantry.model.resource import RECONCILE_REQUESTED, Ref, format_time
from tenantry.model.verdicts import Conflict
from tenantry.ports import Store

ATTEMPTS = 8


async def ask_to_look(store: Store, ref: Ref, at: datetime) -> None:
    """Raises Conflict when it is written all the time, NotFound."""
    asked = {RECONCILE_REQUESTED: format_time(at)}
    for attempts_left in reversed(range(ATTEMPTS)):
        document = await store.get(ref)
        metadata = document["metadata"]
        marked = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **asked}}
        try:
            await store.replace({**document, "metadata": marked}, metadata["resourceVersion"])
        except Conflict:
            if not attempts_left:
                raise
        else:
            return
