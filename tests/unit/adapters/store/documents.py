"""Documents that the store's tests write, and the admission that lets them in."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.admission import Admission
from tenantry.model.resource import API_VERSION, CREDENTIAL_LABEL, SYSTEM_NAMESPACE

ADMISSION = Admission()


def environment(name: str, namespace: str = SYSTEM_NAMESPACE, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Environment",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"region": "home"},
    }


def secret(name: str, value: str, namespace: str = SYSTEM_NAMESPACE, for_kind: str = "identity") -> dict[str, Any]:
    labels = {CREDENTIAL_LABEL: for_kind}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "stringData": {"password": value},
    }


def namespace(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}
