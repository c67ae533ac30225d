"""Obstacles to an uninstallation are named, each with the way to go on."""

from __future__ import annotations

import pytest

from tenantry.cli.commands.platform.uninstall import Release, refuse
from tenantry.cli.output.failing import Failure
from tenantry.kinds import crds
from tenantry.model.resource import Document

RELEASE = Release("ours", "3", "tenantry-system")


def left(kind: str, name: str, namespace: str = "", **more: object) -> Document:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": metadata, "spec": {}, **more}


def test_what_is_left_is_named_with_the_commands_that_delete_it() -> None:
    with pytest.raises(Failure) as refused:
        refuse(
            [
                left("Region", "eu"),
                left("Tenant", "acme", status={"namespace": {"name": "music"}}),
                left("Environment", "prod", "music", spec={"deletionProtection": True}),
                left("Package", "crm-1", "tenantry-system"),
                left("Package", "crm-2", "tenantry-system"),
                left("Package", "old", "tenant-gone"),
                left("Environment", "old", "tenant-gone"),
                left("Source", "company", "tenantry-system"),
                left("Source", "own", "music"),
            ],
            RELEASE,
        )
    assert str(refused.value).splitlines() == [
        "9 objects cannot be deleted once the operator is gone:",
        "  Region/eu",
        "  Tenant/acme",
        "  Environment/music/prod (protected: set spec.deletionProtection to false)",
        "  Package/tenantry-system/crm-1",
        "  Package/tenantry-system/crm-2",
        "  Package/tenant-gone/old",
        "  Environment/tenant-gone/old",
        "  Source/tenantry-system/company",
        "  Source/music/own",
        "Delete them first, in this order:",
        "  kubectl patch environments.tenantry.dev prod --namespace music"
        """ --type=merge --patch '{"spec":{"deletionProtection":false}}'""",
        "  kubectl delete sources.tenantry.dev --all --namespace tenantry-system",
        "  kubectl delete tenants.tenantry.dev --all",
        "  kubectl delete environments.tenantry.dev --all --namespace tenant-gone",
        "  kubectl delete packages.tenantry.dev --all --namespace tenantry-system",
        "  kubectl delete packages.tenantry.dev --all --namespace tenant-gone",
        "  kubectl wait regions.tenantry.dev --all --for=jsonpath='{.status.environments}'=0",
        "  kubectl delete regions.tenantry.dev --all",
        "or keep them, their engines and their data:",
        "  kubectl create clusterrolebinding tenantry-uninstall-release --clusterrole=tenantry-uninstall-release"
        " --serviceaccount=tenantry-system:tenantry-uninstall",
        "and in both cases then:",
        "  helm uninstall ours --namespace tenantry-system",
        "or keep the release; `helm upgrade` works again after:",
        "  helm rollback ours 3 --namespace tenantry-system",
    ]


def test_every_kind_with_our_finalizer_has_its_place_in_the_order() -> None:
    kinds = [kind for kind in crds.KINDS if kind.FINALIZED]
    with pytest.raises(Failure) as refused:
        refuse([left(kind.KIND, "one") for kind in kinds], RELEASE)
    assert [kind.KIND for kind in kinds if f"kubectl delete {kind.PLURAL}." not in str(refused.value)] == []


def test_nothing_left_is_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    refuse([], RELEASE)
    assert "the release may go" in capsys.readouterr().err
