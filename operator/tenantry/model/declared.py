"""Marks by which an object keeps track of its declaration.

The first part is about fields of a spec that the platform fills in where a declaration leaves them out. The second part is about
the labels and annotations that a declaration gave: they go when they leave it, and those that others added stay. Server-side
apply keeps the same list for each writer. Here it is an annotation, because a folder has no API server.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tenantry.model.resource import (
    CREDENTIAL_LABEL,
    FILLED_IN,
    GROUP,
    MANAGED_BY_LABEL,
    MANAGER,
    PRUNE,
    RECONCILE_REQUESTED,
    SUSPEND,
    TENANT_LABEL,
    Document,
)

_FIELDS = {"Package": "sha256"}


def mark_of(kind: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation for an object of which the platform fills in the field now; none where it was declared."""
    field = _FIELDS.get(kind)
    return {FILLED_IN: field} if field is not None and field not in spec else {}


def kept(current: Document, declared: Document) -> dict[str, Any]:
    """Return the fields that the declaration leaves out and never had, with their stored values.

    A field that was declared and is left out now is not among them: it is removed, and admission refuses that where it is
    immutable. The digest of a `source.path` is always the platform's own: it is computed from the file. Objects of releases
    before the annotation are judged by what an upload left on them; they get the annotation with the next write.
    """
    field, held = _FIELDS.get(declared["kind"], ""), current.get("spec") or {}
    if field not in held or field in (declared.get("spec") or {}):
        return {}
    marked = (current["metadata"].get("annotations") or {}).get(FILLED_IN) == field
    filled_in = marked or "path" in (held.get("source") or {}) or _uploaded_before(current)
    return {field: held[field]} if filled_in else {}


def _uploaded_before(current: Document) -> bool:
    """Say if an upload to an older release filled the field in.

    REST made the whole Package, or the upload edited a Package and asked for a reconcile in one write. All else in a Package
    but its signature is immutable, so one that was declared whole is at its first generation. One that was declared whole
    and signed by an upload looks the same, and is treated the same: its sha256 stays, which harms nobody.
    """
    metadata = current["metadata"]
    made = (metadata.get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER
    asked = RECONCILE_REQUESTED in (metadata.get("annotations") or {})
    return made or (asked and int(metadata.get("generation", 1)) > 1)


def marks_of(kept_fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation of an object that keeps these fields."""
    return {FILLED_IN: next(iter(kept_fields))} if kept_fields else {}


def with_id_of(current: Document, declared: Document) -> Document:
    """Return the declaration with the id of the object that is there, where both name the same one.

    An id that is left out stays: an undelete gives its objects one, and the files that declare them do not have it. The uid of
    an object without a declared id is its id already. Any other id is left to admission, which refuses it.
    """
    held, wanted = (current.get("spec") or {}).get("id"), (declared.get("spec") or {}).get("id")
    if wanted is None and held is not None:
        return {**declared, "spec": {**(declared.get("spec") or {}), "id": held}}
    if held is None and wanted is not None and wanted == current["metadata"]["uid"]:
        return {**declared, "spec": {key: value for key, value in declared["spec"].items() if key != "id"}}
    return declared


DECLARED_METADATA = f"{GROUP}/declared-metadata"
"""Annotation: the names of the labels and annotations that the last declaration gave, as JSON."""
PARTS = ("labels", "annotations")
PEOPLE_WRITE = (PRUNE, SUSPEND, CREDENTIAL_LABEL, TENANT_LABEL)
"""The labels and annotations of Tenantry that a person may declare. The others are the platform's own notes."""

Metadata = Mapping[str, Any]


def is_for_people(name: str) -> bool:
    """Return True for a label or an annotation that a declaration gives, and not a program for itself."""
    return name in PEOPLE_WRITE or not (name.startswith(f"{GROUP}/") or "kubectl.kubernetes.io/" in name)


def for_people(metadata: Metadata, part: str) -> dict[str, str]:
    """Return those of an object's labels or annotations, as `part` says, that are for people."""
    return {name: value for name, value in (metadata.get(part) or {}).items() if is_for_people(name)}


def metadata_mark(declared: Metadata) -> dict[str, str]:
    """Return the annotation that names what the metadata of a declaration gives, `{}` if it gives nothing."""
    names = {part: sorted(for_people(declared, part)) for part in PARTS}
    given = {part: each for part, each in names.items() if each}
    return {DECLARED_METADATA: json.dumps(given, separators=(",", ":"))} if given else {}


def merged(held: Metadata, declared: Metadata) -> dict[str, dict[str, str]]:
    """Return labels and annotations of an object under a new declaration, with the annotation that names what it gives."""
    before = _named(held)
    parts = {part: _joined(held.get(part) or {}, declared.get(part) or {}, before[part]) for part in PARTS}
    parts["annotations"].pop(DECLARED_METADATA, None)
    parts["annotations"] |= metadata_mark(declared)
    return parts


def _joined(held: Mapping[str, str], declared: Mapping[str, str], before: Iterable[str]) -> dict[str, str]:
    left = set(before) - declared.keys()
    return {**{name: value for name, value in held.items() if name not in left}, **declared}


def _named(held: Metadata) -> dict[str, list[str]]:
    """The names that the annotation holds. One that somebody damaged names nothing."""
    try:
        found = json.loads((held.get("annotations") or {}).get(DECLARED_METADATA, "{}"))
        return {part: [name for name in found.get(part, ()) if is_for_people(name)] for part in PARTS}
    except (ValueError, TypeError, AttributeError):
        return {part: [] for part in PARTS}
