"""The documents of Operations: named, queued, and shown in status.lastOperation. Facade and runtime use the same functions."""

from __future__ import annotations

import hashlib
from typing import Any

from tenantry.kinds.operation.spec import Operation, conditions_of
from tenantry.model.resource import API_VERSION, PROVENANCE, SYSTEM_NAMESPACE, Document, LastOperation, Resource
from tenantry.runtime.operations.attribution import Attribution

LOG_LIMIT = 4096
DELETION = "delete"


def operation_name(uid: str, action: str, subject: str, cause: str, attempt: int) -> str:
    """Return the name and id of an Operation: a hash of what it is about, so that whoever opens it opens the same one.

    An edit is its generation. Its status decides whether it creates or updates, and may change before its pass, so
    facade and runtime may call one edit by two actions: it keeps the action of whoever opened it first.
    """
    called = () if cause.isdecimal() else (action, subject)
    about = "\0".join((uid, *called, cause, str(attempt)))
    return f"op-{hashlib.sha256(about.encode()).hexdigest()[:24]}"


def queued_document(
    resource: Resource[Any, Any],
    *,
    action: str,
    cause: str,
    attribution: Attribution,
    requested_by: str,
    subject: str = "",
    attempt: int = 0,
    details: str = "",
    traceparent: str = "",
) -> dict[str, Any]:
    """The Operation of one change of `resource`, QUEUED, ready to be created."""
    spec = {
        "action": action,
        "target": {
            "kind": resource.KIND,
            "namespace": resource.metadata.namespace,
            "name": resource.metadata.name,
            "uid": resource.metadata.uid,
        },
        "subject": subject,
        "cause": cause,
        "attempt": attempt,
        **attribution.to_spec(),
        "requestedBy": requested_by,
        "steps": [],
    }
    name = operation_name(resource.metadata.uid, action, subject, cause, attempt)
    status = {"status": "QUEUED", "result": "PENDING", "details": details or describe(action, resource, subject), "logs": ""}
    return {
        "apiVersion": API_VERSION,
        "kind": Operation.KIND,
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, **_provenance(resource)},
        "spec": spec,
        "status": with_conditions(status | ({"traceparent": traceparent} if traceparent else {})),
    }


def _provenance(resource: Resource[Any, Any]) -> dict[str, dict[str, str]]:
    """Return the place and author of the declaration that is carried out, because it may soon change."""
    held = resource.metadata.annotations
    told = {name: held[name] for name in PROVENANCE if name in held}
    return {"annotations": told} if told else {}


def describe(action: str, resource: Resource[Any, Any], subject: str = "") -> str:
    """One sentence: what the Operation does."""
    verb = action.replace("_", " ").capitalize()
    version = f" {subject}" if subject else ""
    return f"{verb} {resource.metadata.name}{version}."


def with_conditions(status: dict[str, Any]) -> dict[str, Any]:
    """Return the status with its conditions."""
    return status | {"conditions": conditions_of(status)}


def with_steps(document: Document, steps: tuple[str, ...]) -> dict[str, Any]:
    """Return the Operation with its steps, unless it has some: the pass that begins it shows them once."""
    if document["spec"].get("steps"):
        return dict(document)
    return {**document, "spec": {**document["spec"], "steps": [step[:1024] for step in steps[:1000]]}}


def summary_of(document: Document) -> LastOperation:
    """Return the Operation as status.lastOperation shows it."""
    status = document["status"]
    return LastOperation(
        id=document["metadata"]["name"],
        action=document["spec"]["action"],
        status=status["status"],
        result=status["result"],
        code=status.get("code", ""),
        by=status.get("by", ""),
    )
