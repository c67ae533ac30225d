"""The document that `tenantry apply` and the console write: a new object, or a declaration over an object that is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.kinds.registry import KINDS
from tenantry.model.declared import kept, marks_of, merged, metadata_mark, with_id_of
from tenantry.model.resource import FILLED_IN, FINALIZER, REQUESTED_BY, Document, ref_of
from tenantry.model.verdicts import Overtaken

_GIVEN = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "finalizers", "managedFields")


def born(document: Document, marks: Mapping[str, str]) -> dict[str, Any]:
    """The document as it is created: with our finalizer, on whose behalf, and nothing of another incarnation."""
    kind = KINDS.get(document["kind"])
    metadata = {key: value for key, value in document["metadata"].items() if key not in _GIVEN}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **metadata_mark(metadata), **marks}
    if kind is not None and kind.type.FINALIZED:
        metadata["finalizers"] = [FINALIZER]
    return {**without_status(document), "metadata": metadata}


def check_current(document: Document, current: Document) -> None:
    """Raise Overtaken if the document names another uid, or a version since which the declaration has changed.

    A version without a generation counts as it is. With one, changes of the status since then are no reason.
    """
    given, held, ref = document["metadata"], current["metadata"], ref_of(current)
    if given.get("uid") not in (None, held["uid"]):
        told = f"{ref} has the uid {held['uid']}, and this is a declaration of {given['uid']}, which was deleted"
        raise Overtaken(f"{told}. To change the new object, leave metadata.uid and metadata.resourceVersion out")
    version = given.get("resourceVersion")
    if version in (None, held["resourceVersion"]) or given.get("generation") == held["generation"]:
        return
    by = (held.get("annotations") or {}).get(REQUESTED_BY)
    changed = f"{ref} has changed since version {version}" + (f", last for {by}" if by else "")
    told = f"{changed}: it has version {held['resourceVersion']}"
    raise Overtaken(f"{told}. Read it again and repeat your change, or leave metadata.resourceVersion out to write over it")


def over(document: Document, current: Document, marks: Mapping[str, str]) -> dict[str, Any]:
    """The document over what is stored: its spec replaces, its labels and annotations join those that others added."""
    document = with_id_of(current, document)
    held = {**current["metadata"], **merged(current["metadata"], document["metadata"])}
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
