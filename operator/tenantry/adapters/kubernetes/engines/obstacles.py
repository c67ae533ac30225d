"""Obstacles to an engine's objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.adapters.kubernetes.engines.workload import labels_of, namespace_of
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import Forbidden, Halt, Invalid, Stalled, Transient, Waiting

AGAIN_S = 1.0
"""The pause before a namespace under deletion is read again."""

_FULL = "exceeded quota: "
"""The API server's words for a full ResourceQuota. The refusal has no code or cause of its own."""


def belongs(real: Document, ref: EngineRef) -> bool:
    """Return True if the object has our labels, with this environment's namespace, name and id."""
    return covers(real["metadata"].get("labels") or {}, labels_of(ref))


def check_is_ours(real: Document, wanted: Document, ref: EngineRef) -> None:
    """real: what stands in its place. Raises Halt: EngineNamespaceTaken, ObjectTaken, EngineNamespaceDeleting."""
    if not belongs(real, ref):
        raise _taken(wanted)
    if "deletionTimestamp" in real["metadata"]:
        raise deleting(ref)


def deleting(ref: EngineRef) -> Halt:
    """Waits until the namespace is gone."""
    again = datetime.now(UTC) + timedelta(seconds=AGAIN_S)
    return Halt(Waiting("EngineNamespaceDeleting", f"namespace {namespace_of(ref.id)} is being deleted", again))


def _taken(wanted: Document) -> Halt:
    metadata = wanted["metadata"]
    where = f" in namespace {metadata['namespace']}" if "namespace" in metadata else ""
    reason = "EngineNamespaceTaken" if wanted["kind"] == "Namespace" else "ObjectTaken"
    return Halt(
        Stalled(
            reason,
            f"{wanted['kind']} {metadata['name']}{where} does not belong to this environment",
            "Operator",
        )
    )


def refused_object(wanted: Document, refused: Invalid | Forbidden) -> Halt:
    """The cluster refuses an object.

    A full ResourceQuota is Transient: the cluster counts an object for a moment after it was deleted.
    """
    name = f"{wanted['kind']} {wanted['metadata']['name']}"
    if isinstance(refused, Invalid):
        return Halt(Stalled("EngineRefused", f"{name}: {'; '.join(str(problem) for problem in refused.problems)}"))
    return Halt(Transient("QuotaExceeded", f"{name}: {refused.verdict.message}")) if _FULL in str(refused) else refused
