"""Admission of the documents of Sources: a tenant's Source declares only what the tenant's ADMIN may."""

from __future__ import annotations

from collections.abc import Callable

from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import CREDENTIAL, OF_TENANTS
from tenantry.model.resource import CREDENTIAL_LABEL, RESTORING, Document
from tenantry.model.syncing import SyncOrder
from tenantry.model.verdicts import Invalid, Problem

TENANT_KINDS = frozenset({CREDENTIAL, *OF_TENANTS})
"""The kinds that a tenant's ADMIN may declare in its namespace."""


def admission_of(order: SyncOrder, admission: Admission) -> Callable[[Document], Document]:
    """Return the admission of new documents of one Source: the platform's, and the rules of Sources. It raises Invalid."""

    def admit(document: Document) -> Document:
        admitted = admission.admit(document)
        problem = _not_labelled(admitted) or (_foreign(admitted, order.source.namespace) if order.tenant else None)
        if problem is not None:
            raise Invalid((problem,))
        return admitted

    return admit


def _not_labelled(document: Document) -> Problem | None:
    """Secrets that are nobody's credential are none of our business: they could neither be found again nor pruned."""
    if document["kind"] != "Secret" or CREDENTIAL_LABEL in (document["metadata"].get("labels") or {}):
        return None
    return Problem("metadata.labels", f"a Secret of a Source carries the label {CREDENTIAL_LABEL}")


def _foreign(document: Document, namespace: str) -> Problem | None:
    """Return the reason why a tenant's Source may not declare the document: with its file, and also on one machine."""
    kind = document["kind"]
    if kind not in TENANT_KINDS:
        return Problem(
            "kind", f"a Source in a tenant's namespace may not declare a {kind}: it may declare only what the tenant's ADMIN may"
        )
    if document["metadata"].get("namespace") != namespace:
        return Problem("metadata.namespace", f"a Source in {namespace} may declare objects of that namespace only")
    if RESTORING in (document["metadata"].get("annotations") or {}):
        return Problem("metadata.annotations", f"only somebody who may create Tenants may restore environments, with {RESTORING}")
    if kind == "Package" and document["spec"].get("shared"):
        return Problem("spec.shared", "is for the platform's own Sources")
    return None
