"""Operations as the facade opens them, QUEUED and by the runtime's own naming, and waits for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request

from tenantry.api.preconditions import Marks
from tenantry.api.waiting import until
from tenantry.kinds.operation.spec import Operation, conditions_of
from tenantry.model.facts import Caller
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Resource, held_of, ref_of
from tenantry.model.verdicts import AlreadyExists, Conflict
from tenantry.runtime.attribution import Attribution
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations import DELETION, queued_document
from tenantry.runtime.writing import WritingStore

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
        resource, action=action, cause=cause, attribution=attribution, requested_by=caller.username, subject=subject
    )
    if marks is not None:
        document["metadata"]["annotations"] = marks.annotations()
    try:
        await store.create(document)
    except AlreadyExists:
        if marks is not None:
            await _mark(store, document["metadata"]["name"], marks)
    return str(document["metadata"]["name"])


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
    """Waits until the Operation of that write has ended and its object tells so; False when the time is up."""
    ref, target = Operation.named(id_), ref_of(document)

    def ended() -> bool | None:
        operation = cast("Operation | None", cache.resource(ref))
        if operation is None or not operation.finished:
            return None
        failed = operation.status.result != "SUCCESS"
        return True if failed or tells(cache.resource(target), document) else None

    return bool(await until(cache, ended, lambda seen: seen.ref in (ref, target), seconds))


def tells(resource: Resource[Any, Any] | None, document: Document) -> bool:
    """Is the written document's object seen at its generation, or gone if that is what was asked?"""
    metadata = document["metadata"]
    if resource is None or resource.metadata.uid != metadata["uid"]:
        return True
    seen: bool = resource.status.observed_generation >= metadata.get("generation", 0)
    return seen and not metadata.get("deletionTimestamp")


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
