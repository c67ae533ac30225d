"""Objects that tests declare on a cluster."""

from __future__ import annotations


def secret(namespace: str, name: str, purpose: str, password: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace, "labels": {"tenantry.dev/credential": purpose}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": password}}


OPEN = {"TENANTRY_OUTBOUND__HTTP": "true", "TENANTRY_OUTBOUND__NETWORKS": "127.0.0.0/8"}
API = "apiVersion: tenantry.dev/v1alpha1\n"


def region(name: str) -> str:
    return f"{API}kind: Region\nmetadata: {{name: {name}}}\nspec: {{displayName: {name}}}\n"


def tenant(name: str) -> str:
    return f"{API}kind: Tenant\nmetadata: {{name: {name}}}\nspec: {{displayName: {name}}}\n"
