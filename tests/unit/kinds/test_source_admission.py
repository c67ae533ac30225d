"""Documents of Sources: a tenant's Source declares only what the tenant's ADMIN may, in the tenant's namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import CREDENTIAL
from tenantry.kinds.source_admission import TENANT_KINDS, admission_of
from tenantry.model.resource import CREDENTIAL_LABEL, RESTORING, SYSTEM_NAMESPACE, Ref
from tenantry.model.syncing import SyncOrder
from tenantry.model.verdicts import Invalid

API = "tenantry.dev/v1alpha1"


def order(tenant: str) -> SyncOrder:
    namespace = f"tenant-{tenant}" if tenant else SYSTEM_NAMESPACE
    return SyncOrder(Ref("Source", namespace, "apps"), "uid", "https://git.example/apps", "main", ".", 60, tenant=tenant)


def document(kind: str, spec: dict[str, Any], namespace: str = "tenant-acme", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": "one", "namespace": namespace, **metadata}, "spec": spec}


def secret(**labels: str) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": "tenant-acme", "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "correct horse"}}


REGION = {
    "apiVersion": API,
    "kind": "Region",
    "metadata": {"name": "local"},
    "spec": {"provider": "Local"},
}
ENVIRONMENT = {"region": "local", "slug": "dev"}
PACKAGE = {"app": "crm", "version": "1.0.0", "sha256": "a" * 64}


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        pytest.param(document("Environment", ENVIRONMENT), "", id="what it may declare"),
        pytest.param(secret(**{CREDENTIAL_LABEL: "identity"}), "", id="a labelled Secret"),
        pytest.param(
            secret(), "metadata.labels: a Secret of a Source carries the label", id="a Secret that is nobody's credential"
        ),
        pytest.param(REGION, "kind: a Source in a tenant's namespace may not declare a Region", id="a kind of the platform"),
        pytest.param(
            document("Environment", ENVIRONMENT, "tenant-other"),
            "metadata.namespace: a Source in tenant-acme may declare objects of that namespace only",
            id="another tenant's namespace",
        ),
        pytest.param(
            document("Environment", ENVIRONMENT, annotations={RESTORING: "mark"}),
            "metadata.annotations: only somebody who may create Tenants may restore environments",
            id="the mark of a restore",
        ),
        pytest.param(
            document("Package", {**PACKAGE, "shared": True}),
            "spec.shared: is for the platform's own Sources",
            id="a shared Package",
        ),
    ],
)
def test_a_tenant_s_source_declares_what_its_admin_may(given: dict[str, Any], refused: str) -> None:
    assert refusal(given, "acme").startswith(refused)
    assert bool(refusal(given, "acme")) == bool(refused)


@pytest.mark.parametrize("given", [REGION, document("Environment", ENVIRONMENT, "tenant-other")], ids=["kind", "namespace"])
def test_a_source_of_the_platform_declares_everything(given: dict[str, Any]) -> None:
    assert refusal(given, "") == ""


def test_the_kinds_of_tenants_are_theirs_and_their_credentials() -> None:
    assert {"Environment", "App", "Package", CREDENTIAL} <= TENANT_KINDS
    assert not TENANT_KINDS & {"Region", "Tenant", "User"}


def refusal(given: dict[str, Any], tenant: str) -> str:
    try:
        admission_of(order(tenant), Admission())(given)
    except Invalid as error:
        return str(error.problems[0])
    return ""
