"""Paths of the objects of Kubernetes itself that Tenantry makes."""

from __future__ import annotations

from urllib.parse import quote

from tenantry.model.resource import Document

PLURALS = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}
CLUSTER_WIDE = frozenset({"Namespace", "PersistentVolume"})


def path_of(api_version: str, kind: str, namespace: str = "", name: str = "") -> str:
    """The path of an object, or without a name of a collection; without a namespace that of all namespaces."""
    parts = ["apis" if "/" in api_version else "api", api_version]
    if namespace and kind not in CLUSTER_WIDE:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(PLURALS.get(kind, f"{kind.lower()}s"))
    return "/" + "/".join([*parts, quote(name, safe="")] if name else parts)


def reference(document: Document) -> str:
    """The path of a document's object."""
    metadata = document["metadata"]
    return path_of(document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"])
