"""Objects of an engine written in the form in which they are wanted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenantry.adapters.kubernetes.client.http import APPLY_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import reference
from tenantry.adapters.kubernetes.engines.comparing import covers, settled
from tenantry.adapters.kubernetes.engines.observed import ReadObjects
from tenantry.adapters.kubernetes.engines.obstacles import check_is_ours, refused_object
from tenantry.adapters.kubernetes.engines.workload import is_scaled
from tenantry.adapters.kubernetes.store import WRITE
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import Conflict, Forbidden, Invalid

TRIES = 5
"""Writes of one object that others write at the same time, before the pass ends and is retried later."""

_SHARED = frozenset({"Namespace", "PersistentVolumeClaim"})
"""Others write what they need into these, too: they are never replaced as a whole."""


async def apply_object(client: Client, wanted: Document, real: Document | None, ref: EngineRef) -> Document:
    """Apply the object and return the result. Foreign values that change its meaning are removed.

    real: the object that exists; ref: the engine that owns it. Raises Halt: EngineRefused, QuotaExceeded, Forbidden, Conflict, or
    as check_is_ours.
    """
    shared = wanted["kind"] in _SHARED
    try:
        applied = await _apply(client, wanted, real, ref)
    except Invalid as refused:
        if real is None or shared:
            raise refused_object(wanted, refused) from refused
        return await _replace(client, wanted, real, ref)
    except Forbidden as refused:
        raise refused_object(wanted, refused) from refused
    return applied if shared or covers(applied, settled(wanted, applied)) else await _replace(client, wanted, applied, ref)


async def _apply(client: Client, wanted: Document, real: Document | None, ref: EngineRef) -> Document:
    """The number of pods that an autoscaler sets is written as it was read, and only over what was read.

    A field that was applied and is then left out would be removed, and one pod would be left.
    """

    async def write(body: Document) -> Document:
        query = {**WRITE, "force": "true"}
        return await client.request("PATCH", reference(wanted), query=query, body=body, content_type=APPLY_PATCH)

    if real is None or wanted["kind"] != "StatefulSet" or not is_scaled(wanted):
        return await write(wanted)
    return await _over(client, wanted, real, ref, lambda now: write(_at_version(settled(wanted, now), now)))


async def _replace(client: Client, wanted: Document, real: Document, ref: EngineRef) -> Document:
    """Replace the object at its version. Raises Halt as _over does, EngineRefused."""

    async def write(now: Document) -> Document:
        return await client.request("PUT", reference(wanted), query=WRITE, body=_replacing(settled(wanted, now), now))

    try:
        return await _over(client, wanted, real, ref, write)
    except Invalid as refused:
        raise refused_object(wanted, refused) from refused


async def _over(
    client: Client, wanted: Document, real: Document, ref: EngineRef, write: Callable[[Document], Awaitable[Document]]
) -> Document:
    """Write over the object as it is. Controllers write its status at any time, so a conflict is retried.

    Only the same object is written. Raises Conflict if it is gone or was made again, and as check_is_ours if it has another
    owner or is being deleted.
    """
    tries_left = TRIES
    while True:
        tries_left -= 1
        try:
            return await write(real)
        except Conflict:
            now = await ReadObjects(client).find(wanted)
            if not tries_left or now is None or now["metadata"]["uid"] != real["metadata"]["uid"]:
                raise
            check_is_ours(now, wanted, ref)
            real = now


def _at_version(wanted: Document, real: Document) -> Document:
    """Return what is applied only if the object is still at that version."""
    return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": real["metadata"]["resourceVersion"]}}


def _replacing(wanted: Document, real: Document) -> Document:
    """Return the wanted form with the metadata of the real object: labels and annotations of others stay."""
    metadata = {key: value for key, value in real["metadata"].items() if key != "managedFields"}
    for key in ("labels", "annotations"):
        metadata[key] = {**(metadata.get(key) or {}), **wanted["metadata"].get(key, {})}
    return {**wanted, "metadata": metadata}
