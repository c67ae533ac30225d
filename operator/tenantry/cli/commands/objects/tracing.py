"""The origin of an object: the chain of objects above it, and the file of each."""

from __future__ import annotations

from tenantry.hosts.console.protocol import Console
from tenantry.model.resource import REQUESTED_BY, SOURCE, SOURCE_AUTHOR, SOURCE_COMMIT, SOURCE_FILE, Document, ref_of


async def above(console: Console, document: Document) -> list[Document]:
    """The objects that it depends on, nearest first: an Operation's target, its package, environment, tenant and region."""
    if document["kind"] == "Operation":
        target = document["spec"]["target"]
        found = await _named(console, target["kind"], target.get("namespace") or "", target["name"])
        return [found, *await above(console, found)] if found else []
    from tenantry.kinds.tenancy import namespace_of

    chain: list[Document] = []
    spec, namespace = document.get("spec", {}), document["metadata"].get("namespace", "")
    if document["kind"] == "App" and spec.get("version"):
        chain += [
            each
            for each in await console.list("Package")
            if (each["spec"]["app"], each["spec"]["version"]) == (spec["app"], spec["version"])
            and each["metadata"]["namespace"] in (namespace, "tenantry-system")
        ]
    environment = document if document["kind"] == "Environment" else None
    if "environment" in spec:
        environment = await _named(console, "Environment", namespace, spec["environment"])
        chain += [environment] if environment else []
    if namespace:
        chain += [each for each in await console.list("Tenant") if namespace_of(each) == namespace]
    if environment:
        region = await _named(console, "Region", "", environment["spec"]["region"])
        chain += [region] if region else []
    return chain


def step(document: Document) -> dict[str, str]:
    """Known facts about an object's origin."""
    metadata = document["metadata"]
    annotations = metadata.get("annotations", {})
    last = document.get("status", {}).get("lastOperation") or {}
    return {
        "object": str(ref_of(document)),
        "source": metadata.get("labels", {}).get(SOURCE, ""),
        "file": annotations.get(SOURCE_FILE, ""),
        "commit": annotations.get(SOURCE_COMMIT, ""),
        "author": annotations.get(SOURCE_AUTHOR, ""),
        "requestedBy": annotations.get(REQUESTED_BY, ""),
        "lastOperation": " ".join(filter(None, (last.get("id"), last.get("action"), last.get("result")))),
    }


async def _named(console: Console, kind: str, namespace: str, name: str) -> Document | None:
    for each in await console.list(kind):
        if (each["metadata"].get("namespace", ""), each["metadata"]["name"]) == (namespace, name):
            return each
    return None
