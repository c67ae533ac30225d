"""The document that `tenantry apply` and the console write: a new object, or a declaration over an object that is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.kinds.registry import KINDS
from tenantry.model.filled_in import kept, marks_of, with_id_of
from tenantry.model.resource import FILLED_IN, FINALIZER, Document

_GIVEN = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "finalizers", "managedFields")


def born(document: Document, marks: Mapping[str, str]) -> dict[str, Any]:
    """The document as it is created: with our finalizer, on whose behalf, and nothing of another incarnation."""
    kind = KINDS.get(document["kind"])
    metadata = {key: value for key, value in document["metadata"].items() if key not in _GIVEN}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **marks}
    if kind is not None and kind.type.FINALIZED:
        metadata["finalizers"] = [FINALIZER]
    return {**without_status(document), "metadata": metadata}


def over(document: Document, current: Document, marks: Mapping[str, str]) -> dict[str, Any]:
    """The document over what is stored: its spec replaces, its labels and annotations join."""
    document = with_id_of(current, document)
    held = dict(current["metadata"])
    for key in ("labels", "annotations"):
        held[key] = {**(held.get(key) or {}), **(document["metadata"].get(key) or {})}
    body = without_status(document)
    body["metadata"] = held
    held["annotations"].pop(FILLED_IN, None)
    if filled_in := kept(current, document):
        body["spec"] = {**(body.get("spec") or {}), **filled_in}
        held["annotations"] |= marks_of(filled_in)
    if _declared(body) == _declared(current):
        return body
    held["annotations"] = {**held["annotations"], **marks}
    return body


def but_version(document: Document) -> dict[str, Any]:
    """The document without its status and its version, which a server may change with a write that changes nothing."""
    metadata = {key: value for key, value in document["metadata"].items() if key != "resourceVersion"}
    return {**without_status(document), "metadata": metadata}


def without_status(document: Document) -> dict[str, Any]:
    """The document without what the platform observed."""
    return {key: value for key, value in document.items() if key != "status"}


def _declared(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("metadata", "status")}
