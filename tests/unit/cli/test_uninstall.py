"""What stands in the way of an uninstallation is named, with what it takes to go on."""

from __future__ import annotations

import pytest

from tenantry.cli.failing import Failure
from tenantry.cli.uninstall import refuse
from tenantry.model.resource import Document


def left(kind: str, name: str, namespace: str = "", **more: object) -> Document:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": metadata, "spec": {}, **more}


def test_what_is_left_is_named_with_the_commands_that_delete_it() -> None:
    with pytest.raises(Failure) as refused:
        refuse(
            [
                left("Tenant", "acme", status={"namespace": {"name": "music"}}),
                left("Environment", "prod", "music", spec={"deletionProtection": True}),
                left("Package", "crm-1", "tenantry-system"),
                left("Package", "crm-2", "tenantry-system"),
                left("Package", "old", "tenant-gone"),
            ]
        )
    assert str(refused.value).splitlines() == [
        "5 objects could not be deleted any more once the operator is gone:",
        "  Tenant/acme",
        "  Environment/music/prod (protected: set spec.deletionProtection to false)",
        "  Package/tenantry-system/crm-1",
        "  Package/tenantry-system/crm-2",
        "  Package/tenant-gone/old",
        "Delete them first:",
        "  kubectl delete tenants.tenantry.dev --all",
        "  kubectl delete packages.tenantry.dev --all --namespace tenantry-system",
        "  kubectl delete packages.tenantry.dev --all --namespace tenant-gone",
        "or keep them, their engines and their data:",
        "  helm upgrade with --set uninstall.mode=release, then helm uninstall",
    ]


def test_nothing_left_is_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    refuse([])
    assert "the release may go" in capsys.readouterr().err
