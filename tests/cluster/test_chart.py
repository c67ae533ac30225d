"""The chart on a real API server: accepted without a warning, upgraded, and gone only when it may."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.charting import CHART, NAMESPACE, objects, rendered, run
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import ROOT, until
from tests.cluster.releases import (
    EVERYTHING,
    FINALIZER,
    OPERATOR,
    Run,
    environment,
    kubeconfig_of,
    refused,
)
from tests.cluster.schemas import write_schemas

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_objects_follow_the_api_servers_own_schemas(values: dict[str, Any], kubectl: Run, tmp_path: Path) -> None:
    location = write_schemas(json.loads(kubectl("get", "--raw", "/openapi/v2").stdout), tmp_path)
    done = run("kubeconform", "-strict", "-summary", "-output", "json", "-schema-location", location, given=rendered(values))
    found = json.loads(done.stdout)
    assert (done.returncode, found.get("resources")) == (0, []), done.stdout
    assert found["summary"]["valid"] == len(objects(values))


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_the_api_server_takes_every_object_without_a_warning(values: dict[str, Any], kubectl: Run, release: str) -> None:
    for document in objects(values):
        checked = kubectl(
            "apply", "--dry-run=server", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-", given=document
        )
        assert (checked.returncode, checked.stderr) == (0, ""), document["metadata"]["name"]


def test_the_notes_tell_what_comes_next(release: str) -> None:
    for part in (
        "kubectl rollout status",
        "helm test tenantry",
        "kubectl get secret -n tenantry-system tenantry-admin",
        "kubectl apply -R",
    ):
        assert part in release


async def test_pods_are_let_into_a_restricted_namespace(kubectl: Run, release: str) -> None:
    async def made() -> bool:
        pods = json.loads(kubectl("get", "pods", "-n", NAMESPACE, "-o", "json").stdout)["items"]
        components = Counter(pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods)
        return components >= Counter(api=1, operator=2) and set(components) == {"api", "operator"}

    await until(made, f"the pods are not there: {kubectl('get', 'events', '-n', NAMESPACE).stdout}")


def test_an_upgrade_keeps_the_password(helm: Run, kubectl: Run, release: str) -> None:
    def password() -> str:
        return kubectl("get", "secret", "tenantry-admin", "-n", NAMESPACE, "-o", "jsonpath={.data.password}").stdout

    before = password()
    upgraded = helm("upgrade", "tenantry", CHART, settings={"TENANTRY_WORKERS": 8})
    assert (upgraded.returncode, upgraded.stderr) == (0, "")
    assert before == password() != ""


def hook(own: Cluster, kubectl: Run, mode: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The hook's command with the rights of the hook's account."""
    return subprocess.run(
        [sys.executable, "-m", "tenantry.cli.main", "uninstall", "--mode", mode],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "KUBECONFIG": str(kubeconfig_of("uninstall", own, kubectl, folder)),
            "PYTHONPATH": str(ROOT / "operator"),
        },
        check=False,
    )


def command(run: Run, told: str, beginning: str) -> None:
    """Runs the command that a refusal lists, as it stands there."""
    (line,) = [each.strip() for each in told.splitlines() if each.strip().startswith(beginning)]
    done = run(*shlex.split(line)[1:])
    assert done.returncode == 0, done.stderr


def uninstall_in_vain(helm: Run, kubectl: Run) -> None:
    """No node runs the hook's Job here: to helm, that is a hook that failed. It leaves the Job, which no other test expects."""
    assert helm("uninstall", "tenantry", "--timeout", "2s").returncode != 0
    assert kubectl("delete", "job", "tenantry-uninstall", "-n", NAMESPACE).returncode == 0


def test_a_refused_uninstallation_can_be_taken_back(own: Cluster, helm: Run, kubectl: Run, release: str, tmp_path: Path) -> None:
    assert kubectl("create", "-f", "-", "--as", OPERATOR, given=environment("stays", finalizers=[FINALIZER])).returncode == 0
    stays = hook(own, kubectl, "refuse", tmp_path)
    uninstall_in_vain(helm, kubectl)
    refused(helm("upgrade", "tenantry", CHART), "has no deployed releases")

    command(helm, stays.stderr.replace("--namespace tenantry-system", ""), "helm rollback")

    for mode in ("release", "refuse"):
        upgraded = helm("upgrade", "tenantry", CHART, uninstall={"mode": mode})
        assert upgraded.returncode == 0, upgraded.stderr
    assert hook(own, kubectl, "refuse", tmp_path).returncode == 1
    freed = kubectl(
        "patch", "tenv/stays", "-n", "tenant-acme", "--type=merge", "-p", '{"metadata":{"finalizers":null}}', "--as", OPERATOR
    )
    assert freed.returncode == 0, freed.stderr


def test_a_release_goes_when_nothing_waits_for_its_operator(
    own: Cluster, helm: Run, kubectl: Run, release: str, tmp_path: Path
) -> None:
    document = environment("last", finalizers=[FINALIZER, "example.com/another"])
    assert kubectl("create", "-f", "-", "--as", OPERATOR, given=document).returncode == 0

    stays = hook(own, kubectl, "refuse", tmp_path)
    assert stays.returncode == 1
    assert "Environment/tenant-acme/last" in stays.stderr

    may_not = hook(own, kubectl, "release", tmp_path)
    assert (may_not.returncode, "deployments/scale" in may_not.stderr) == (1, True), may_not.stderr

    uninstall_in_vain(helm, kubectl)
    refused(helm("upgrade", "tenantry", CHART), "has no deployed releases")
    command(kubectl, stays.stderr, "kubectl create clusterrolebinding")
    for _ in range(2):
        goes = hook(own, kubectl, "refuse", tmp_path)
        assert goes.returncode == 0, goes.stderr
    assert kubectl("get", "clusterrolebinding", "tenantry-uninstall-release").returncode != 0, (
        "the next release begins without it"
    )
    left = json.loads(kubectl("get", "tenv/last", "-n", "tenant-acme", "-o", "json").stdout)
    assert left["metadata"]["finalizers"] == ["example.com/another"]
    assert kubectl("get", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=operator", "-o", "name").stdout == ""

    # The processes' own, made at their first start.
    assert kubectl("create", "secret", "generic", "tenantry-keys", "-n", NAMESPACE, "--from-literal=master=key").returncode == 0
    assert helm("uninstall", "tenantry", "--no-hooks").returncode == 0
    assert kubectl("get", "tenv/last", "-n", "tenant-acme").returncode == 0
    kept = kubectl("get", "secrets,persistentvolumeclaims", "-n", NAMESPACE, "-o", "name").stdout.split()
    assert kept == ["secret/tenantry-admin", "secret/tenantry-keys", "persistentvolumeclaim/tenantry-blobs"]
    ours = ("clusterroles", "clusterrolebindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings")
    assert "tenantry" not in kubectl("get", ",".join(ours), "-o", "name").stdout
    again = helm("install", "tenantry", CHART)
    assert again.returncode == 0, again.stderr
