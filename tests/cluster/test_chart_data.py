"""An engine's data is not deleted beneath it, by the chart's policies on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tenantry.kinds.crds import KINDS, Kind
from tenantry.model.resource import SYSTEM_NAMESPACE
from tests.cluster.fixtures import until
from tests.cluster.releases import MAKER, OPERATOR, Run, refused

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
NAME = "env-8f1c5c5d-0812"
LABELS = {
    "tenantry.dev/environment-id": "8f1c5c5d-0812-4a2d-910f-560533b8992e",
    "tenantry.dev/namespace": "tenant-acme",
    "tenantry.dev/environment": "production",
    "pod-security.kubernetes.io/enforce": "restricted",
}
CONTROLLERS = ("system:serviceaccount:kube-system:namespace-controller", "system:kube-controller-manager")
WHY = "holds the data of environment tenant-acme/production: delete the Environment instead"


@pytest.fixture(autouse=True, scope="module")
def engine(kubectl: Run, release: str) -> None:
    make(kubectl, NAME)


def make(kubectl: Run, name: str) -> tuple[str, str, str]:
    """An engine's namespace and claim, as the operator makes them. Returns how kubectl names the claim."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": LABELS}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "engine", "namespace": name, "labels": LABELS},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    for document in (namespace, claim):
        made = kubectl("create", "-f", "-", "--as", OPERATOR, given=document)
        assert made.returncode == 0, made.stderr
    return ("persistentvolumeclaim/engine", "-n", name)


def deleted(kubectl: Run, *what: str, who: tuple[str, ...] = ()) -> Any:
    return kubectl("delete", *what, "--dry-run=server", *who)


@contextmanager
def confirmed(kubectl: Run, *what: str) -> Iterator[None]:
    """The deletion of an object is confirmed for the time of the block: other tests are refused it."""
    assert kubectl("annotate", *what, "tenantry.dev/deletion-confirmed=true").returncode == 0
    yield
    assert kubectl("annotate", *what, "tenantry.dev/deletion-confirmed-").returncode == 0


CLAIM = ("persistentvolumeclaim/engine", "-n", NAME)
HANDS = {
    "an administrator deletes the namespace": (("namespace", NAME), ()),
    "one who may make namespaces deletes it": (("namespace", NAME), MAKER),
    "an administrator deletes the claim": (CLAIM, ()),
    "an administrator deletes all claims": (("persistentvolumeclaims", "--all", "-n", NAME), ()),
    "the namespace controller deletes the claim of a living namespace": (CLAIM, ("--as", CONTROLLERS[0])),
    "the controller manager deletes the claim of a living namespace": (
        CLAIM,
        ("--as", CONTROLLERS[1], "--as-group", "system:masters"),
    ),
}


@pytest.mark.parametrize(("what", "who"), HANDS.values(), ids=HANDS)
def test_it_is_refused_that(what: tuple[str, ...], who: tuple[str, ...], kubectl: Run) -> None:
    refused(deleted(kubectl, *what, who=who), WHY)


def test_a_collection_of_claims_is_not_deleted_either(kubectl: Run) -> None:
    refused(kubectl("delete", "--raw", f"/api/v1/namespaces/{NAME}/persistentvolumeclaims"), WHY)


def test_the_operator_deletes_it_and_the_clusters_own_controller_empties_it(kubectl: Run) -> None:
    name = "env-2f1c5c5d-0812"
    claim = make(kubectl, name)
    held = kubectl("patch", *claim, "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/held"]}}')
    assert held.returncode == 0, held.stderr
    assert deleted(kubectl, *claim, who=("--as", OPERATOR)).returncode == 0
    gone = kubectl("delete", "namespace", name, "--as", OPERATOR, "--wait=false")
    assert gone.returncode == 0, gone.stderr

    def going() -> bool:
        return "deletionTimestamp" in json.loads(kubectl("get", *claim, "-o", "json").stdout)["metadata"]

    asyncio.run(until(lambda: asyncio.to_thread(going), "the controller has not deleted it"))
    assert kubectl("patch", *claim, "--type=merge", "-p", '{"metadata":{"finalizers":null}}').returncode == 0
    asyncio.run(until(lambda: asyncio.to_thread(lambda: kubectl("get", "namespace", name).returncode != 0), "it is not gone"))


VOLUMES = {
    "an engine's volume": ({"name": "engine", "namespace": NAME}, "Bound", {}, True),
    "a kept volume": ({"name": "engine", "namespace": NAME}, "Released", {"tenantry.dev/kept": "true"}, True),
    "a volume that its provisioner may delete": ({"name": "engine", "namespace": NAME}, "Released", {}, False),
    "a volume of others": ({"name": "engine", "namespace": "default"}, "Bound", {}, False),
}


@pytest.mark.parametrize(("claim", "phase", "labels", "held"), VOLUMES.values(), ids=VOLUMES)
def test_a_volume_that_holds_an_engines_data_is_not_deleted(
    claim: dict[str, str], phase: str, labels: dict[str, str], held: bool, kubectl: Run
) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}, "claimRef": claim}
    metadata = {"generateName": "volume-", "labels": labels, "annotations": {"pv.kubernetes.io/provisioned-by": "nobody"}}
    given = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    made = kubectl("create", "-f", "-", "-o", "name", given=given)
    assert made.returncode == 0, made.stderr
    volume = made.stdout.strip()
    told = json.dumps({"status": {"phase": phase}})
    assert kubectl("patch", volume, "--subresource=status", "--type=merge", "-p", told).returncode == 0
    if not held:
        assert deleted(kubectl, volume).returncode == 0
        return
    refused(deleted(kubectl, volume), f"holds the data of the engine in namespace {NAME}")
    with confirmed(kubectl, volume):
        assert deleted(kubectl, volume).returncode == 0


@pytest.mark.parametrize("who", [(), ("--as", OPERATOR)], ids=["an administrator", "the operator"])
def test_the_claim_of_all_packages_is_deleted_only_when_that_is_confirmed(
    who: tuple[str, ...], kubectl: Run, release: str
) -> None:
    claim = ("persistentvolumeclaim/tenantry-blobs", "-n", SYSTEM_NAMESPACE)
    refused(deleted(kubectl, *claim), "holds the packages of all tenants")
    with confirmed(kubectl, *claim):
        assert deleted(kubectl, *claim).returncode == 0


@pytest.mark.parametrize("what", [("namespace", NAME), CLAIM], ids=["the namespace", "the claim"])
def test_who_confirms_it_may_delete_what_no_environment_has(what: tuple[str, ...], kubectl: Run) -> None:
    with confirmed(kubectl, *what):
        assert deleted(kubectl, *what).returncode == 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_a_definition_goes_with_all_its_objects_only_when_that_is_confirmed(kind: Kind, kubectl: Run, release: str) -> None:
    name = f"{kind.PLURAL}.tenantry.dev"
    why = f"with it go all {kind.PLURAL} of the cluster: delete the objects first"
    delete = ("delete", "crd", name, "--dry-run=server")
    asyncio.run(until(lambda: asyncio.to_thread(lambda: why in kubectl(*delete).stderr), "the policy is not in force"))
    for who in ((), ("--as", OPERATOR)):
        assert kubectl(*delete, *who).returncode != 0
    with confirmed(kubectl, "crd", name):
        assert kubectl(*delete).returncode == 0
    refused(kubectl(*delete), why)


def test_the_definitions_of_others_are_deleted_as_before(kubectl: Run, release: str) -> None:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    given = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    assert kubectl("create", "-f", "-", given=given).returncode == 0
    assert kubectl("delete", "crd", "widgets.example.com").returncode == 0
