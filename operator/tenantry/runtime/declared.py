"""What is declared of an environment, so that it can be declared again: without state, and without whose it was."""

from __future__ import annotations

from typing import Any

from tenantry.model.facts import EngineRef
from tenantry.model.resource import GROUP, Document, Ref
from tenantry.runtime.cache import Cache

CONTENTS = ("App", "Identity", "IdentityProvider")


def declared_of(cache: Cache, ref: EngineRef) -> tuple[Document, ...]:
    """The Environment, then its contents that are not being deleted; nothing when it is not there."""
    environment = cache.document(Ref("Environment", ref.namespace, ref.name))
    if environment is None:
        return ()
    held = [entry.document() for kind in CONTENTS for _, entry in cache.entries(kind, ref.namespace, f"environment={ref.name}")]
    return _bare(environment), *(_bare(each) for each in held if not each["metadata"].get("deletionTimestamp"))


def _bare(document: Document) -> Document:
    metadata = document["metadata"]
    bare: dict[str, Any] = {"name": metadata["name"], "namespace": metadata["namespace"]}
    for key in ("labels", "annotations"):
        # What is ours tells of a source, of who asked, and of requests that were answered.
        kept = {name: value for name, value in (metadata.get(key) or {}).items() if not name.startswith(f"{GROUP}/")}
        if kept:
            bare[key] = kept
    spec = dict(document["spec"])
    if document["kind"] != "App":
        # Its REST id stays what it is.
        spec["id"] = spec.get("id") or metadata["uid"]
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": bare, "spec": spec}
