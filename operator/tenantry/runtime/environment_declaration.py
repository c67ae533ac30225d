"""The declarations of an environment in a form that can be declared again: without state and owner."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.registry import CONTENTS
from tenantry.model.facts import EngineRef
from tenantry.model.resource import GROUP, OF_TENANT, Document, Ref
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import bound_tenant


def declared_of(cache: Cache, ref: EngineRef) -> tuple[Document, ...]:
    """The Environment, then its contents that are not being deleted; nothing when it is not there."""
    environment = cache.document(Ref("Environment", ref.namespace, ref.name))
    if environment is None:
        return ()
    held = [entry.document() for kind in CONTENTS for _, entry in cache.entries(kind, ref.namespace, f"environment={ref.name}")]
    contents = (_bare(each) for each in held if not each["metadata"].get("deletionTimestamp"))
    return _marked(_bare(environment), ref.namespace, cache), *contents


def _marked(environment: Document, namespace: str, cache: Cache) -> Document:
    """With the uid of its Tenant: a later one of the same name is not to have it back."""
    tenant = bound_tenant(namespace, cache)
    if tenant is None:
        return environment
    metadata = environment["metadata"]
    mark = {OF_TENANT: f"{tenant.metadata.name}/{tenant.metadata.uid}"}
    return {**environment, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **mark}}}


def _bare(document: Document) -> Document:
    metadata = document["metadata"]
    bare: dict[str, Any] = {"name": metadata["name"], "namespace": metadata["namespace"]}
    for key in ("labels", "annotations"):
        # Our own keys name a source, a requester and answered requests: they are not part of a declaration.
        kept = {name: value for name, value in (metadata.get(key) or {}).items() if not name.startswith(f"{GROUP}/")}
        if kept:
            bare[key] = kept
    spec = dict(document["spec"])
    if document["kind"] != "App":
        # Its REST id stays what it is.
        spec["id"] = spec.get("id") or metadata["uid"]
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": bare, "spec": spec}
