"""Operations as the facade opens them, QUEUED and by the runtime's own naming, and waits for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request

from tenantry.api.reading.waiting import until
from tenantry.api.writing.preconditions import Marks
from tenantry.kinds.operation.spec import Operation, conditions_of
from tenantry.model.facts import Caller
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Resource, held_of, ref_of
from tenantry.model.verdicts import AlreadyExists, Conflict
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import Attribution, attribution_of
from tenantry.runtime.operations.documents import DELETION, queued_document
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.tracing.work import traceparent

LONGEST_WAIT_S = 60
_WAIT = re.compile(r"wait=([0-9]{1,4})")


async def queue(
    store: WritingStore,
    resource: Resource[Any, Any],
    *,
    action: str,
    cause: str,
    attribution: Attribution,
    caller: Caller,
    subject: str = "",
    marks: Marks | None = None,
) -> str:
    """Opens the Operation of a change that was just made; the id, also when the operator was faster."""
    document = queued_document(
        resource,
        action=action,
        cause=cause,
        attribution=attribution,
        requested_by=caller.username,
        subject=subject,
        traceparent=traceparent(),
    )
    if marks is not None:
        document["metadata"]["annotations"] = marks.annotations()
    try:
        await store.create(document)
    except AlreadyExists:
        if marks is not None:
            await _mark(store, document["metadata"]["name"], marks)
    return str(document["metadata"]["name"])


async def queue_change(
    store: WritingStore, cache: Cache, resource: Resource[Any, Any], caller: Caller, *, fresh: bool, marks: Marks | None = None
) -> str:
    """Queue the creation, change or deletion of a Tenant or an Environment. fresh: its creation has not ended yet."""
    noun, cause = resource.KIND.upper(), str(resource.metadata.generation)
    action = f"CREATE_{noun}" if fresh else f"UPDATE_{noun}"
    if resource.deleting:
        action, cause = f"DELETE_{noun}", DELETION
    elif marks is not None:
        action, cause = f"CREATE_{noun}", "1"  # a repeated POST may find it changed
    whose = attribution_of(resource, cache)
    return await queue(store, resource, action=action, cause=cause, attribution=whose, caller=caller, marks=marks)


async def _mark(store: WritingStore, name: str, marks: Marks) -> None:
    """Lets a repeated request find the Operation."""
    while True:
        current = await store.get(Operation.named(name))
        annotations = {**(current["metadata"].get("annotations") or {}), **marks.annotations()}
        marked = {**current, "metadata": {**current["metadata"], "annotations": annotations}}
        try:
            await store.replace(marked, held_of(current).version)
            return
        except Conflict:
            continue


def deletion_of(cache: Cache, uid: str) -> str:
    """The newest Operation of an object's deletion, or `""`."""
    found = [cast(Operation, one) for one in cache.resources(Operation.KIND, SYSTEM_NAMESPACE, f"target={uid}")]
    deletions = [one for one in found if one.spec.cause == DELETION]
    return max(deletions, key=lambda one: one.spec.attempt).id if deletions else ""


async def carried_out(cache: Cache, id_: str, document: Document, seconds: float) -> bool:
    """Wait until the Operation of that write has ended and its object shows it; False when the time is up."""
    ref, target = Operation.named(id_), ref_of(document)

    def ended() -> bool | None:
        operation = cast("Operation | None", cache.resource(ref))
        if operation is None or not operation.finished:
            return None
        if operation.status.result != "SUCCESS":
            return True
        resource = cache.resource(target)
        return True if tells(resource, document) and not _shows_unfinished(resource, id_) else None

    return bool(await until(cache, ended, lambda seen: seen.ref in (ref, target), seconds))


def tells(resource: Resource[Any, Any] | None, document: Document) -> bool:
    """Return True if the object is seen at its written generation, or gone if that was the request."""
    metadata = document["metadata"]
    if resource is None or resource.metadata.uid != metadata["uid"]:
        return True
    seen: bool = resource.status.observed_generation >= metadata.get("generation", 0)
    return seen and not metadata.get("deletionTimestamp")


def _shows_unfinished(resource: Resource[Any, Any] | None, id_: str) -> bool:
    """Return True if the object's status is older than the end of that Operation: the end is recorded first."""
    last = resource.status.last_operation if resource is not None else None
    return last is not None and last.id == id_ and last.status != "COMPLETED"


def preferred_wait(request: Request) -> int:
    """The seconds of `Prefer: wait=N`, at most 60; 0 where absent."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return min(int(found[1]), LONGEST_WAIT_S) if found else 0


def cancelled(document: Document, now: str, annotations: Mapping[str, str], limit: int) -> dict[str, Any]:
    """The Operation as a person's cancellation leaves it. limit: of its log, in characters."""
    logs = f"{document['status'].get('logs', '')}{now} INFO cancelled by a person\n"[-limit:]
    status = {**document["status"], "status": "COMPLETED", "result": "CANCELLED", "endsOn": now, "logs": logs}
    metadata = dict(document["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {**document, "metadata": metadata, "status": status | {"conditions": conditions_of(status)}}
