"""Declarations as a person would type them: the text with which the page of plans begins. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.model.declared import PARTS, for_people
from tenantry.model.resource import API_VERSION, Document, Ref
from tenantry.runtime.cache import Cache


def declaration_text(document: Document, changes: Mapping[str, Any] | None = None) -> str:
    """The text that declares an object, with other values of its spec. What the platform wrote on it is left out."""
    given = document["metadata"]
    metadata = {key: given[key] for key in ("name", "namespace") if given.get(key)}
    for part in PARTS:
        kept = for_people(given, part)
        metadata |= {part: kept} if kept else {}
    spec = {**document.get("spec", {}), **(changes or {})}
    shown = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata, "spec": spec}
    return str(yaml.dump(shown, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100))


def installing_text(cache: Cache, app: App, to: Environment | None, version: str) -> str:
    """The text that declares an app with a version in its environment, or in another one of the same tenant."""
    environment = to.metadata.name if to is not None else app.spec.environment
    namespace = to.metadata.namespace if to is not None else app.metadata.namespace
    ref = Ref(App.KIND, namespace, f"{environment}.{app.spec.app}")
    found = cache.document(ref) if to is not None else cache.document(app.ref)
    spec = {"environment": environment, "app": app.spec.app}
    new = {"apiVersion": API_VERSION, "kind": App.KIND, "metadata": {"name": ref.name, "namespace": namespace}, "spec": spec}
    return declaration_text(found or new, {"version": version})
