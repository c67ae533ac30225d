"""A change of what is stored, made again on what others wrote meanwhile: the runtime writes all the time."""

from __future__ import annotations

from collections.abc import Callable

from tenantry.model.resource import Document, Ref, held_of
from tenantry.model.verdicts import Conflict
from tenantry.ports import Store

ATTEMPTS = 20


async def revise(store: Store, ref: Ref, change: Callable[[Document], Document]) -> tuple[Document, Document]:
    """Replaces a document by what `change` makes of it: before and after, the same one where nothing is changed.

    Raises NotFound, Conflict when others write it all the time, and what `change` and the store raise.
    """
    for _ in range(ATTEMPTS):
        current = await store.get(ref)
        changed = change(current)
        if changed == current:
            return current, current
        try:
            return current, await store.replace(changed, held_of(current).version)
        except Conflict:
            continue
    raise Conflict(f"{ref.kind} {ref.name} keeps being changed by others; try again")
