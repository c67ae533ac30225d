"""Namespaces that no Tenant owns: a slip of the hand that would uninstall what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.model.resource import Document
from tenantry.model.tree import Declared, Place, Tree
from tenantry.runtime.sources.ownership import warnings_of
from tenantry.runtime.sources.sync import decide_sync


def document(kind: str, name: str, namespace: str = "", **spec: Any) -> Document:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def tree(*documents: Document) -> Tree:
    return Tree(tuple(Declared.of(each, Place("a.yaml", line)) for line, each in enumerate(documents, 1)))


LAB = document("Environment", "lab", "tenant-acme", region="eu")
TREES: dict[str, tuple[tuple[Document, ...], list[str]]] = {
    "owned by a Tenant": ((document("Tenant", "acme"), LAB), []),
    "owned by a Tenant that names it": (({**document("Tenant", "a"), "spec": {"namespace": "tenant-acme"}}, LAB), []),
    "declared itself": ((document("Namespace", "tenant-acme"), LAB), []),
    "the platform's own": ((document("Source", "all", "tenantry-system", url="https://git.example/x"),), []),
    "nobody's": ((LAB,), ["a.yaml:1: metadata.namespace: tenant-acme: none of these Tenants owns it"]),
    "misspelt, and told once": (
        (
            document("Tenant", "acme"),
            document("Environment", "lab", "tenant-acne", region="eu"),
            document("Environment", "dev", "tenant-acne", region="eu"),
        ),
        ["a.yaml:2: metadata.namespace: tenant-acne: none of these Tenants owns it; did you mean tenant-acme?"],
    ),
}


@pytest.mark.parametrize(("documents", "warnings"), TREES.values(), ids=TREES)
def test_validate_warns_of_a_namespace(documents: tuple[Document, ...], warnings: list[str]) -> None:
    assert [str(each) for each in warnings_of(tree(*documents))] == warnings


@pytest.mark.parametrize(("documents", "warnings"), TREES.values(), ids=TREES)
def test_a_sync_and_so_a_plan_says_the_same_of_what_waits(documents: tuple[Document, ...], warnings: list[str]) -> None:
    reasons = {wait.reason for wait, _ in decide_sync(tree(*documents), {}, "default").waiting}
    told = sorted(reason.partition(", and ")[2] for reason in reasons if ", and " in reason)
    assert told == [each[each.index("none of these Tenants") :] for each in warnings]
