"""Which namespaces Tenants own, and the objects that are declared in one that nobody owns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import chain
from typing import NamedTuple

from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref
from tenantry.model.tree import SourceProblem, Tree
from tenantry.model.verdicts import Problem


def owned_namespaces(documents: Iterable[Document]) -> frozenset[str]:
    """Return the namespaces of the Tenants and Namespaces among the documents, and the platform's own."""
    return frozenset({SYSTEM_NAMESPACE, *(_namespace_of(each) for each in documents if each["kind"] in ("Tenant", "Namespace"))})


def no_owner_of(name: str, owned: frozenset[str]) -> str:
    """Say that no Tenant owns a namespace, and which one of those that are owned may have been meant."""
    meant = get_close_matches(name, sorted(owned - {SYSTEM_NAMESPACE}), 1, 0.8)
    return "no Tenant in sight owns it" + (f"; did you mean {meant[0]}?" if meant else "")


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


def _namespace_of(document: Document) -> str:
    if document["kind"] == "Namespace":
        return str(document["metadata"]["name"])
    bound = ((document.get("status") or {}).get("namespace") or {}).get("name")
    return str(bound or document["spec"].get("namespace") or f"tenant-{document['metadata']['name']}")
