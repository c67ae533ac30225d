"""Admission for the embedded host: the checks and defaults that an API server applies before it stores a document.

It reads the same schemas as the CRDs, so that both hosts refuse the same documents and name the same fields.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tenantry.kinds import core, crds
from tenantry.kinds.structural import Structural
from tenantry.model.resource import ACCESS_MARK, API_VERSION, DELETION_CONFIRMED, MADE_FOR, TENANT_LABEL, Document, ref_of
from tenantry.model.verdicts import Forbidden, Invalid, Problem
from tenantry.model.wording import editing, nearest


@dataclass(frozen=True)
class _Admitted:
    """The rules of admission for one kind."""

    api_version: str
    namespaced: bool
    has_status: bool
    compiled: Callable[[], Structural]
    kept_by: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @cached_property
    def structural(self) -> Structural:
        """Compiled at its first use."""
        return self.compiled()


class Admission:
    """Defaults and validation of every kind, Namespace and Secret included. Thread-safe; schemas are compiled once a process."""

    def __init__(self) -> None:
        self._kinds = _admitted()

    def admit(self, document: Document, old: Document | None = None) -> Document:
        """The document with its schema's defaults. `old`: the stored version that it would replace, None at create.

        Raises Invalid, naming each field as the API server does.
        """
        kind = self._kind_of(document)
        metadata = document.get("metadata")
        if not kind.namespaced and isinstance(metadata, Mapping) and "namespace" in metadata:
            document = _without_namespace(document)
        if document["kind"] == "Secret":
            document = _fold_string_data(document)
        filled = kind.structural.fill(document, old)
        findings = kind.structural.findings(filled, old)
        if findings:
            raise Invalid(tuple(dict.fromkeys(finding.problem() for finding in findings)))
        return filled

    def admit_deletion(self, document: Document) -> None:
        """Let an object be deleted. Raises Forbidden for one that is protected, that others depend on, or a Tenant's."""
        name = ref_of(document)
        if document["kind"] == "Namespace" and (tenant := _bound_to(document)):
            way_out = f"if it has none, annotate it with {DELETION_CONFIRMED}=true first"
            raise Forbidden(f"{name} is the namespace of tenant {tenant}: delete the Tenant instead; {way_out}")
        if document.get("spec", {}).get("deletionProtection") is True:
            raise Forbidden(f"{name} is protected: set spec.deletionProtection to false to delete it: {editing(name)}")
        for count_of, (one, several) in self._kind(document["kind"]).kept_by.items():
            if count := document.get("status", {}).get(count_of, 0):
                raise Forbidden(f"{name} cannot be deleted: {count} {one if count == 1 else several}")

    def compile(self) -> None:
        """Compile what the first writes would compile otherwise. Blocks for about 0.2 s."""
        for kind in self._kinds.values():
            kind.structural.compile_rules()

    def namespaced(self, kind: str) -> bool:
        """Return True if objects of that kind live in a namespace. Raises Invalid for an unknown kind."""
        return self._kind(kind).namespaced

    def has_status(self, kind: str) -> bool:
        """Return True if the kind has the status subresource. Raises Invalid for an unknown kind."""
        return self._kind(kind).has_status

    def _kind_of(self, document: Document) -> _Admitted:
        name, version = document.get("kind"), document.get("apiVersion")
        problems = [Problem(field, "Required value") for field in ("apiVersion", "kind") if not document.get(field)]
        if problems:
            raise Invalid(tuple(problems))
        kind = self._kind(name)
        if version != kind.api_version:
            raise Invalid((Problem("apiVersion", f"{name} is of {kind.api_version}, not of {version!r}"),))
        return kind

    def _kind(self, name: Any) -> _Admitted:
        if isinstance(name, str) and name in self._kinds:
            return self._kinds[name]
        near = nearest(str(name), self._kinds)
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(self._kinds)}"
        raise Invalid((Problem("kind", f"unknown kind {name!r}; {hint}"),))


@functools.cache
def _admitted() -> Mapping[str, _Admitted]:
    """The rules of all kinds. Their schemas compile at first use: that takes longer than anything else at start."""
    return {
        **{kind.KIND: _ours(kind) for kind in crds.KINDS},
        "Namespace": _core(core.NAMESPACE, namespaced=False),
        "Secret": _core(core.SECRET, namespaced=True, secret=True),
    }


def _ours(kind: crds.Kind) -> _Admitted:
    def compiled() -> Structural:
        return Structural(core.with_metadata(crds.object_schema(kind), namespaced=kind.NAMESPACED))

    return _Admitted(API_VERSION, kind.NAMESPACED, crds.has_status_subresource(kind), compiled, kind.KEPT_BY)


def _core(schema: Mapping[str, Any], *, namespaced: bool, secret: bool = False) -> _Admitted:
    def compiled() -> Structural:
        return Structural(core.with_metadata(schema, namespaced=namespaced), secret=secret, core=True)

    return _Admitted("v1", namespaced, not secret, compiled)


def _bound_to(namespace: Document) -> str:
    """The name of the Tenant that is bound to the namespace, "" where none is or somebody has confirmed the deletion."""
    labels, annotations = (namespace["metadata"].get(each) or {} for each in ("labels", "annotations"))
    bound = annotations.get(MADE_FOR) or annotations.get(ACCESS_MARK)
    return str(labels.get(TENANT_LABEL, "")) if bound and annotations.get(DELETION_CONFIRMED) != "true" else ""


def _without_namespace(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    return {**document, "metadata": metadata}


def _fold_string_data(secret: Document) -> Document:
    """The Secret with the clear texts of `stringData` in its `data`, which holds base64 on one line."""
    data, clear = secret.get("data"), secret.get("stringData")
    if not isinstance(data, Mapping | None) or not isinstance(clear, Mapping | None):
        return secret
    if not all(isinstance(value, str) for value in (clear or {}).values()):
        return secret
    folded = {key: _one_line(value) for key, value in (data or {}).items()}
    folded |= {key: base64.b64encode(value.encode()).decode() for key, value in (clear or {}).items()}
    rest = {key: value for key, value in secret.items() if key not in ("data", "stringData")}
    return {**rest, "data": folded} if folded else rest


def _one_line(value: Any) -> Any:
    return value.replace("\n", "").replace("\r", "") if isinstance(value, str) else value
