"""What stands in the way of an engine's objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenantry.adapters.kubernetes.workload import covers, labels_of, namespace_of
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import Halt, Invalid, Stalled, Waiting

AGAIN_S = 1.0
"""How soon a namespace that is going is looked at again."""


def belongs(real: Document, ref: EngineRef) -> bool:
    """Does the object carry our labels, with this environment's namespace, name and id?"""
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
        Stalled(reason, f"{wanted['kind']} {metadata['name']}{where} is not this environment's; it is left alone", "Operator")
    )


def refused_object(wanted: Document, refused: Invalid) -> Halt:
    """The cluster refuses an object."""
    reasons = "; ".join(str(problem) for problem in refused.problems)
    return Halt(Stalled("EngineRefused", f"{wanted['kind']} {wanted['metadata']['name']}: {reasons}"))
