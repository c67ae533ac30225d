"""Objects of an engine written in the form in which they are wanted."""

from __future__ import annotations

from tenantry.adapters.kubernetes.client.http import APPLY_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import reference
from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.adapters.kubernetes.engines.observed import ReadObjects
from tenantry.adapters.kubernetes.engines.obstacles import check_is_ours, refused_object
from tenantry.adapters.kubernetes.store import WRITE
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import Conflict, Forbidden, Invalid

TRIES = 5
"""Replacements of one object that others write at the same time, before the pass ends and is retried later."""

_SHARED = frozenset({"Namespace", "PersistentVolumeClaim"})
"""Others write what they need into these, too: they are never replaced as a whole."""


async def apply_object(client: Client, wanted: Document, real: Document | None, ref: EngineRef) -> Document:
    """Apply the object and return the result. Foreign values that change its meaning are removed.

    real: the object that exists; ref: the engine that owns it. Raises Halt: EngineRefused, QuotaExceeded, Forbidden, Conflict, or
    as check_is_ours.
    """
    shared = wanted["kind"] in _SHARED
    query = {**WRITE, "force": "true"}
    try:
        applied = await client.request("PATCH", reference(wanted), query=query, body=wanted, content_type=APPLY_PATCH)
    except Invalid as refused:
        if real is None or shared:
            raise refused_object(wanted, refused) from refused
        return await _replace(client, wanted, real, ref)
    except Forbidden as refused:
        raise refused_object(wanted, refused) from refused
    return applied if shared or covers(applied, wanted) else await _replace(client, wanted, applied, ref)


async def _replace(client: Client, wanted: Document, real: Document, ref: EngineRef) -> Document:
    """Replace the object at its version. Controllers write its status at any time, so a conflict is retried.

    Only the same object is replaced. Raises Conflict if it is gone or was made again, and as check_is_ours if it has another
    owner or is being deleted.
    """
    tries_left = TRIES
    while True:
        tries_left -= 1
        try:
            return await client.request("PUT", reference(wanted), query=WRITE, body=_replacing(wanted, real))
        except Invalid as refused:
            raise refused_object(wanted, refused) from refused
        except Conflict:
            now = await ReadObjects(client).find(wanted)
            if not tries_left or now is None or now["metadata"]["uid"] != real["metadata"]["uid"]:
                raise
            check_is_ours(now, wanted, ref)
            real = now


def _replacing(wanted: Document, real: Document) -> Document:
    """Return the wanted form with the metadata of the real object: labels and annotations of others stay."""
    metadata = {key: value for key, value in real["metadata"].items() if key != "managedFields"}
    for key in ("labels", "annotations"):
        metadata[key] = {**(metadata.get(key) or {}), **wanted["metadata"].get(key, {})}
    return {**wanted, "metadata": metadata}
