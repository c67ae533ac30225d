"""The document of a declaration: a new one, or one that replaces an existing document. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenantry.model.declared import PARTS, kept, marks_of, merged, metadata_mark, with_id_of
from tenantry.model.resource import (
    ALSO_DECLARED_BY,
    CREDENTIAL_LABEL,
    DELETION_CONFIRMED,
    FILLED_IN,
    PROVENANCE,
    PRUNE,
    RELEASED_FROM,
    REQUESTED_BY,
    SOURCE,
    SOURCE_AUTHOR,
    SOURCE_COMMIT,
    SOURCE_FILE,
    SUSPEND,
    Document,
)
from tenantry.model.tree import Declared, Origin, Place

_OURS = (
    PRUNE, DELETION_CONFIRMED, CREDENTIAL_LABEL, SOURCE, SOURCE_FILE, SOURCE_COMMIT, SOURCE_AUTHOR, SUSPEND, RELEASED_FROM,
    FILLED_IN,
)  # fmt: skip
"""Labels and annotations that mean something to Tenantry: they go when the declaration does not give them, whoever added them."""
_PROVENANCE = (SOURCE_COMMIT, SOURCE_AUTHOR, REQUESTED_BY)


@dataclass(frozen=True)
class Write:
    """A document to create (version `""`) or to replace, and whence it comes."""

    document: Document
    declared: Declared
    version: str = ""


def created(declared: Declared, source: str, origin: Origin | None) -> Document:
    """The new object, with its source and its place."""
    document = declared.document
    given = document["metadata"]
    metadata = {key: given[key] for key in ("name", "namespace") if given.get(key)}
    metadata["labels"] = {**given.get("labels", {}), SOURCE: source}
    place = {SOURCE_FILE: _stands_at(declared.place, origin)}
    metadata["annotations"] = {**given.get("annotations", {}), **place, **_told(origin), **metadata_mark(given)}
    return {**_head(document), "metadata": metadata, **_body(document)}


def _stands_at(place: Place, origin: Origin | None) -> str:
    """File and line, in the commit that is named beside it."""
    return str(place._replace(line=origin.line) if origin is not None and origin.line else place)


def _told(origin: Origin | None) -> dict[str, str]:
    """Return the provenance that an object shows."""
    if origin is None:
        return {}
    author = {SOURCE_AUTHOR: origin.author} if origin.author else {}
    return {SOURCE_COMMIT: origin.commit, **author, REQUESTED_BY: requester(origin)}


def requester(origin: Origin) -> str:
    """On whose behalf a commit's changes are made."""
    return f"git:{origin.author}" if origin.author else "git"


def replaced(declared: Declared, current: Document, source: str, origin: Origin | None) -> Write | None:
    """The write that brings the object to its declaration, or None. That its line or its file's commit moved is no reason."""
    wanted, held = with_id_of(current, created(declared, source, origin)), current["metadata"]
    parts = merged({**held, **{part: _others(held.get(part, {})) for part in PARTS}}, wanted["metadata"])
    labels, annotations = parts["labels"], parts["annotations"]
    if annotations.get(ALSO_DECLARED_BY) == source:  # it has come to this source
        del annotations[ALSO_DECLARED_BY]
    filled_in = kept(current, wanted)
    annotations |= marks_of(filled_in)
    body = _completed(current, wanted, filled_in)
    stands = _standing(annotations, held.get("annotations", {}))
    if body == _body(current) and labels == held.get("labels", {}) and stands == held.get("annotations", {}):
        return None
    metadata = {**held, "labels": labels, "annotations": annotations}
    return Write({**_head(wanted), "metadata": metadata, **body}, declared, held["resourceVersion"])


def _standing(annotations: Mapping[str, str], held: Mapping[str, str]) -> Mapping[str, str]:
    """The annotations as they would be, had neither the object's line nor its file's commit moved since it was written."""
    stood = held.get(SOURCE_FILE, "")
    if stood.rpartition(":")[0] != annotations[SOURCE_FILE].rpartition(":")[0]:
        return annotations
    stands = {**annotations, SOURCE_FILE: stood}
    if SOURCE_COMMIT in held and SOURCE_COMMIT in annotations:
        kept = {name: held[name] for name in _PROVENANCE if name in held}
        return {**{name: value for name, value in stands.items() if name not in _PROVENANCE}, **kept}
    return stands


def _others(held: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in held.items() if key not in _OURS}


def _completed(current: Document, wanted: Document, filled_in: Mapping[str, Any]) -> dict[str, Any]:
    """The declared body, with what the platform filled in; a Namespace's body is the API server's own."""
    if wanted["kind"] == "Namespace":
        return _body(current)
    body = _body(wanted)
    return {**body, "spec": {**body["spec"], **filled_in}} if filled_in else body


def _head(document: Document) -> dict[str, Any]:
    return {"apiVersion": document["apiVersion"], "kind": document["kind"]}


def _body(document: Document) -> dict[str, Any]:
    """The declared part."""
    return {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata", "status")}


def released(document: Document) -> Document:
    """The object as nobody's: it may be edited, and adopted by another source. Its annotation says which source it left."""
    metadata = document["metadata"]
    annotations = metadata.get("annotations") or {}
    labels = {name: value for name, value in metadata["labels"].items() if name != SOURCE}
    left = f"{metadata['labels'][SOURCE]} ({annotations.get(SOURCE_FILE, '')})"
    kept = {name: value for name, value in annotations.items() if name not in (*PROVENANCE, ALSO_DECLARED_BY)}
    return {**document, "metadata": {**metadata, "labels": labels, "annotations": {**kept, RELEASED_FROM: left}}}


def claimed(document: Document, claimant: str) -> Document:
    """The object of another source, with who declares it too; `""` takes that back."""
    metadata = document["metadata"]
    others = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != ALSO_DECLARED_BY}
    annotations = {**others, ALSO_DECLARED_BY: claimant} if claimant else others
    return {**document, "metadata": {**metadata, "annotations": annotations}}
