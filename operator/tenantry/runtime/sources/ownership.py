"""Namespaces that Tenants own, and the objects declared in a namespace that nobody owns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from tenantry.kinds.tenancy import comes_with
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref
from tenantry.model.tree import SourceProblem, Tree
from tenantry.model.verdicts import Problem
from tenantry.model.wording import did_you_mean

ALIKE = 0.8
"""Namespaces of tenants begin alike: a guess must be nearer than for other names; see model/wording.nearest."""


def owned_namespaces(documents: Iterable[Document]) -> frozenset[str]:
    """Return the namespaces of the Tenants and Namespaces among the documents, and the platform's own."""
    return frozenset({SYSTEM_NAMESPACE, *(comes_with(each) for each in documents if each["kind"] in ("Tenant", "Namespace"))})


def no_owner_of(name: str, owned: frozenset[str]) -> str:
    """Say that no Tenant owns a namespace, and which one of those that are owned may have been meant."""
    hint = did_you_mean(name, sorted(owned - {SYSTEM_NAMESPACE}), like=ALIKE)
    return f"none of these Tenants owns it{hint}"


class Namespaces(NamedTuple):
    """there: those in which objects can be created; owned: those that some Tenant has, or will have."""

    there: frozenset[str]
    owned: frozenset[str]

    def why_missing(self, name: str) -> str:
        missing = f"namespace {name} does not exist yet"
        return missing if name in self.owned else f"{missing}, and {no_owner_of(name, self.owned)}"


def namespaces_of(tree: Tree, existing: Mapping[Ref, Document]) -> Namespaces:
    """The namespaces in which objects can be created: those that are there, and those that are declared."""
    owners = (each.document for each in tree.documents if each.ref.kind == "Tenant")
    owned = owned_namespaces(chain(owners, (each for ref, each in existing.items() if ref.kind == "Tenant")))
    declared = {each.ref for each in tree.documents}
    there = {ref.name for ref in existing if ref.kind == "Namespace"}
    leaving = {name for name in there if existing[Ref("Namespace", "", name)]["metadata"].get("deletionTimestamp")}
    made = frozenset(there | {ref.name for ref in declared if ref.kind == "Namespace"}) - leaving
    return Namespaces(made, owned | made)


def warnings_of(tree: Tree) -> tuple[SourceProblem, ...]:
    """Return a warning for each namespace that objects are declared in and that no Tenant of the tree owns."""
    owned = owned_namespaces(each.document for each in tree.documents if each.ref.kind in ("Tenant", "Namespace"))
    first = {each.ref.namespace: each.place for each in reversed(tree.documents) if each.ref.namespace}
    found = ((place, name) for name, place in first.items() if name not in owned)
    return tuple(
        SourceProblem(place.file, place.line, Problem("metadata.namespace", f"{name}: {no_owner_of(name, owned)}"))
        for place, name in sorted(found)
    )
