"""Fields of a spec that the platform fills in where a declaration leaves them out, and how an object remembers that it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.model.resource import FILLED_IN, Document

_FIELDS = {"Package": "sha256"}


def mark_of(kind: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation for an object of which the platform fills in the field now; none where it was declared."""
    field = _FIELDS.get(kind)
    return {FILLED_IN: field} if field is not None and field not in spec else {}


def kept(current: Document, declared: Document) -> dict[str, Any]:
    """Return the fields that the declaration leaves out and never had, with their stored values.

    A field that was declared and is left out now is not among them: it is removed, and admission refuses that where it is
    immutable. The digest of a `source.path` is always the platform's own: it is computed from the file.
    """
    field, held = _FIELDS.get(declared["kind"], ""), current.get("spec") or {}
    if field not in held or field in (declared.get("spec") or {}):
        return {}
    marked = (current["metadata"].get("annotations") or {}).get(FILLED_IN) == field
    return {field: held[field]} if marked or "path" in (held.get("source") or {}) else {}


def marks_of(kept_fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation of an object that keeps these fields."""
    return {FILLED_IN: next(iter(kept_fields))} if kept_fields else {}
