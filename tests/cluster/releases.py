"""The chart, installed on a control plane of its own, and who acts there."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.charting import CHART, NAMESPACE, program, run
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import own_plane, until
from tests.scenario.tools import lacking
from tests.support.built_programs import MissingProgram

Run = Callable[..., "subprocess.CompletedProcess[str]"]
EVERYTHING: dict[str, Any] = {
    "api": {"replicas": 2},
    "blobs": {"s3": {"url": "s3://bucket/prefix"}},
    "ingress": {"enabled": True, "host": "tenantry.example", "tlsSecretName": "tls"},
    "networkPolicy": {"apiFrom": [{"namespaceSelector": {}}]},
    "uninstall": {"mode": "release"},
}
OPERATOR, API = (f"system:serviceaccount:{NAMESPACE}:tenantry-{name}" for name in ("operator", "api"))
ADMIN = "system:serviceaccount:tenant-acme:tenantry-admin"
VIEWER = "system:serviceaccount:tenant-acme:tenantry-viewer"
MAKER = ("--as", "somebody", "--as-group", "namespace-makers")
"""One who may make and change namespaces, but no Tenants."""
FINALIZER = "tenantry.dev/finalizer"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of its own: a release is the cluster's, and no other test's definitions may be there before."""
    try:
        program("helm")
    except MissingProgram as missing:
        lacking(str(missing))
    with own_plane(tmp_path_factory.mktemp("chart")) as cluster:
        if cluster.kubectl is None:
            lacking("there is no kubectl beside the control plane")
        yield cluster


@pytest.fixture(scope="module")
def kubectl(own: Cluster) -> Run:
    def call(*arguments: str | Path, given: Any = None) -> subprocess.CompletedProcess[str]:
        command = [str(own.kubectl), "--kubeconfig", str(own.kubeconfig), *map(str, arguments)]
        text = None if given is None else json.dumps(given)
        return subprocess.run(command, capture_output=True, text=True, input=text, timeout=60, check=False)

    return call


@pytest.fixture(scope="module")
def helm(own: Cluster) -> Run:
    def call(*arguments: str | Path, **values: Any) -> subprocess.CompletedProcess[str]:
        given = ("--values", "-") if values else ()
        return run(
            "helm", *arguments, "--namespace", NAMESPACE, "--kubeconfig", own.kubeconfig, *given, given=json.dumps(values) or None
        )

    return call


@pytest.fixture(scope="module")
def release(helm: Run, kubectl: Run) -> str:
    """The release, with a tenant's namespace as the operator would make it."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    for document in (namespace, *makers()):
        assert kubectl("create", "-f", "-", given=document).returncode == 0
    checked = helm("install", "tenantry", CHART, "--dry-run=server")
    assert checked.returncode == 0, checked.stderr
    installed = helm("install", "tenantry", CHART)
    assert (installed.returncode, installed.stderr) == (0, "")
    waited = kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    assert waited.returncode == 0, waited.stderr
    asyncio.run(until(lambda: asyncio.to_thread(_guarded, kubectl), "the policies are not in force"))
    for document in tenant_objects():
        created = kubectl("create", "-f", "-", given=document)
        assert created.returncode == 0, created.stderr
    return installed.stdout


def _guarded(kubectl: Run) -> bool:
    """A policy counts some moments after it was made: a dry run of what each forbids shows when."""
    dry = ("create", "--dry-run=server", "-f", "-")
    probes = (
        ("requested-by", environment("probe", namespace="default", annotations={"tenantry.dev/requested-by": "another"}), ()),
        ("tenant-namespaces", _namespace("probe", {"tenantry.dev/tenant": "acme"}), MAKER),
        ("owned-namespaces", _namespace("kube-probe", {"tenantry.dev/tenant": "acme"}), ("--as", OPERATOR)),
        ("operator-reach", {**_token_secret("default"), "type": "Opaque"}, ("--as", OPERATOR)),
        # By the api, for the operator is refused by two policies, of which one is told.
        ("token-secrets", _token_secret(NAMESPACE), ("--as", API)),
        ("helm-releases", {**_token_secret(NAMESPACE), "type": "helm.sh/release.v1"}, ("--as", API)),
    )
    return all(
        f"ValidatingAdmissionPolicy 'tenantry-{name}'" in kubectl(*dry, *who, given=given).stderr for name, given, who in probes
    )


def _namespace(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _token_secret(namespace: str) -> dict[str, Any]:
    annotations = {"kubernetes.io/service-account.name": "default"}
    metadata = {"name": "probe", "namespace": namespace, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata}


def tenant_objects() -> list[dict[str, Any]]:
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"tenantry-{name}", "namespace": "tenant-acme"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"tenantry-tenant-{name}"},
            "subjects": [{"kind": "ServiceAccount", "name": f"tenantry-{name}", "namespace": "tenant-acme"}],
        }
        for name in ("admin", "viewer")
    ]
    facade = {
        **bindings[0],
        "metadata": {"name": "tenantry-api", "namespace": "tenant-acme"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenantry-api", "namespace": NAMESPACE}],
    }
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "tenant-acme",
            "labels": {"tenantry.dev/tenant": "acme"},
            "annotations": {"tenantry.dev/made-for": "a-uid", "tenantry.dev/access": "1-none"},
        },
    }
    return [namespace, *bindings, facade]


def makers() -> list[dict[str, Any]]:
    """So that a policy, and not a missing right, is what refuses."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "namespace-makers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "namespace-makers"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "namespace-makers"}],
    }
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "update", "patch", "delete"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "namespace-makers"},
        "rules": rules,
    }
    return [role, binding]


def environment(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {"name": name, "namespace": "tenant-acme"} | metadata,
        "spec": {"region": "home"},
    }


def refused(answer: subprocess.CompletedProcess[str], why: str) -> None:
    assert answer.returncode != 0
    assert why in answer.stderr


def kubeconfig_of(account: str, own: Cluster, kubectl: Run, folder: Path) -> Path:
    """A kubeconfig with the rights of one of the release's accounts."""
    token = kubectl("create", "token", f"tenantry-{account}", "-n", NAMESPACE).stdout.strip()
    config = yaml.safe_load(own.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / f"kubeconfig-{account}"
    path.write_text(yaml.safe_dump(config))
    return path
