"""Objects as a person would declare them: what the server adds, what others wrote on them, and defaults are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tenantry.model.resource import GROUP, PRUNE, Document, ref_of
from tenantry.model.verdicts import Invalid

Admit = Callable[[Document], Document]
"""Defaults and validation of a new document. Raises Invalid."""
_OTHERS = (
    "kubectl.kubernetes.io/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "helm.sh/",
    "meta.helm.sh/",
    "kopf.zalando.org/",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/instance",
    "kubernetes.io/metadata.name",
)
"""Labels and annotations by which other tools know what they applied."""


def declaration(document: Document, admit: Admit) -> dict[str, Any]:
    """The document that, applied, declares the same object. Secrets stay references."""
    given = document["metadata"]
    metadata = {key: given[key] for key in ("name", "namespace") if given.get(key)}
    for key in ("labels", "annotations"):
        kept = {name: value for name, value in sorted((given.get(key) or {}).items()) if _people_wrote(name, document["kind"])}
        metadata |= {key: kept} if kept else {}
    head = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}
    if document["kind"] == "Namespace":
        return head
    return _sparse({**head, "spec": dict(document["spec"])}, admit)


def secrets_named(document: Document) -> Iterator[tuple[str, str]]:
    """The Secrets that an object refers to: namespace and name."""
    namespace = document["metadata"].get("namespace", "")
    for key, value in _fields(document.get("spec", {})):
        if key.endswith(("SecretRef", "secretRef")) and isinstance(value, Mapping) and value.get("name"):
            yield str(value.get("namespace") or namespace), str(value["name"])


def by_name(documents: Iterable[Document]) -> list[Document]:
    """Without those that are being deleted."""
    return sorted((each for each in documents if not each["metadata"].get("deletionTimestamp")), key=ref_of)


def _people_wrote(name: str, kind: str) -> bool:
    if name == PRUNE or (kind == "Namespace" and name == f"{GROUP}/tenant"):
        return True
    return not name.startswith((f"{GROUP}/", *_OTHERS))


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield key, below
            yield from _fields(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _fields(below)


def _sparse(document: dict[str, Any], admit: Admit) -> dict[str, Any]:
    """Without every field that admission fills in just so."""
    whole = admit(document)
    spec = document["spec"]
    for path in list(_paths(spec, ())):
        slim = _without(spec, path)
        try:
            same = admit({**document, "spec": slim}) == whole
        except Invalid:
            same = False  # it is required
        if same:
            spec = slim
    return {**document, "spec": spec}


def _paths(value: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every field, those inside before those that hold them."""
    for key, below in value.items():
        if isinstance(below, Mapping):
            yield from _paths(below, (*above, key))
        yield (*above, key)


def _without(value: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    first, *rest = path
    if not rest:
        return {key: below for key, below in value.items() if key != first}
    return {**value, first: _without(value[first], tuple(rest))}
