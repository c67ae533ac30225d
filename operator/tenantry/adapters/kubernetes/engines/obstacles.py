"""Obstacles to an engine's objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.adapters.kubernetes.engines.workload import ID_LABEL, labels_of, namespace_of
from tenantry.kinds.environment.ownership import NO_PROOF, PlaceProof, is_proven
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import Forbidden, Halt, Invalid, QuotaExceeded, Stalled, Waiting

AGAIN_S = 1.0
"""The pause before a namespace under deletion is read again."""


def belongs(real: Document, ref: EngineRef, proof: PlaceProof = NO_PROOF) -> bool:
    """Return True if the object is this engine's.

    A namespace has our labels, with this environment's namespace, name and id; or the proof shows whose it is, and labels that
    somebody took off are put back. Inside of it the id is enough.
    """
    labels = real["metadata"].get("labels") or {}
    labelled = labels.get(ID_LABEL, "")
    if real["kind"] != "Namespace":
        return bool(labelled == ref.id)
    return covers(labels, labels_of(ref)) or is_proven(real["metadata"].get("uid", ""), labelled, ref.id, proof)


def check_is_ours(real: Document, wanted: Document, ref: EngineRef, proof: PlaceProof = NO_PROOF) -> None:
    """real: what stands in its place. Raises Halt: EngineNamespaceTaken, ObjectTaken, EngineNamespaceDeleting."""
    if not belongs(real, ref, proof):
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
    return QuotaExceeded(f"{name}: {refused.verdict.message}") if isinstance(refused, QuotaExceeded) else refused
