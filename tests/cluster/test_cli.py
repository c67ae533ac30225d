"""The command line on a cluster: the same commands, by --kubeconfig, with the rights that it gives."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.cluster.control_plane import Cluster
from tests.scenario.cli import completed, tenantry, until

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

DECLARED = """
apiVersion: tenantry.dev/v1alpha1
kind: Region
metadata: {name: cli-region}
spec: {displayName: Here}
---
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {name: cli-tenant}
spec: {displayName: Acme}
"""
OPEN_OPERATION = """
---
apiVersion: v1
kind: Namespace
metadata: {name: ill-namespace}
---
apiVersion: tenantry.dev/v1alpha1
kind: Operation
metadata: {name: ill-operation, namespace: ill-namespace}
spec: {action: UPDATE_TENANT, target: {kind: Tenant, name: ill-tenant, uid: u}, cause: "1"}
"""


@pytest.fixture
def on(cluster: Cluster) -> tuple[str, str]:
    return ("--kubeconfig", str(cluster.kubeconfig))


def test_apply_get_change_and_delete(cluster: Cluster, on: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(DECLARED)
    applied = [tenantry(*on, "apply", "-f", file, cwd=tmp_path).stdout.splitlines() for _ in range(2)]
    file.write_text(DECLARED.replace("Here", "There"))
    applied.append(tenantry(*on, "apply", "-f", file, cwd=tmp_path).stdout.splitlines())
    assert applied == [
        [f"region/cli-region {first}", f"tenant/cli-tenant {second}"]
        for first, second in (("created", "created"), ("unchanged", "unchanged"), ("changed", "unchanged"))
    ]
    region = json.loads(tenantry(*on, "get", "region", "cli-region", "-o", "json", cwd=tmp_path).stdout)
    assert (region["spec"]["displayName"], "annotations" in region["metadata"]) == ("There", False)
    for kind, name in (("region", "cli-region"), ("tenant", "cli-tenant")):
        assert tenantry(*on, "delete", f"{kind}/{name}", cwd=tmp_path).returncode == 0
        deleting = json.loads(tenantry(*on, "get", kind, name, "-o", "json", cwd=tmp_path).stdout)
        assert deleting["metadata"]["deletionTimestamp"], "no operator runs here that would let it go"
        free = [str(cluster.kubectl), *on, "patch", kind, name, "--type=merge", "-p", '{"metadata": {"finalizers": []}}']
        subprocess.run(free, check=True, capture_output=True)
    assert "cli-region" not in tenantry(*on, "get", "regions", "-o", "name", cwd=tmp_path).stdout


def test_what_runs_becomes_yaml_without_what_the_server_adds(on: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(DECLARED.replace("cli-", "git-"))
    assert tenantry(*on, "apply", "-f", file, cwd=tmp_path).returncode == 0
    written = tenantry(*on, "import", "--cluster", "-o", "git", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    declared = {each["metadata"]["name"]: each for each in yaml.safe_load_all(file.read_text())}
    assert yaml.safe_load((tmp_path / "git/tenants/git-tenant/10-tenant.yaml").read_text()) == declared["git-tenant"]
    regions = {each["metadata"]["name"]: each for each in yaml.safe_load_all((tmp_path / "git/00-regions.yaml").read_text())}
    assert regions["git-region"] == declared["git-region"]
    exported = tenantry(*on, "export", "git-tenant", cwd=tmp_path)
    assert yaml.safe_load(exported.stdout) == declared["git-tenant"]
    applied = tenantry(*on, "apply", "-f", "git", cwd=tmp_path)
    assert "tenant/git-tenant unchanged" in applied.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("plan", "."), "set TENANTRY_SERVER"),
        (("token",), "POST /api/v1/auth/token"),
        (("get", "tenant", "nobody"), "nobody"),
    ],
)
def test_what_a_cluster_does_otherwise_is_told(
    on: tuple[str, str], tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    ended = tenantry(*on, *arguments, cwd=tmp_path)
    assert (ended.returncode != 0, told in ended.stderr) == (True, True), ended.stderr


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = tenantry("--kubeconfig", "nowhere", "get", "tenants", cwd=tmp_path)
    assert (ended.returncode, "nowhere" in ended.stderr, "Traceback" in ended.stderr) == (2, True, False)


def test_a_misspelt_field_that_the_server_reports_has_a_suggestion(on: tuple[str, str], tmp_path: Path) -> None:
    """`edit` sends what the editor leaves; `apply` reads the file with our own admission and names its line."""
    file = tmp_path / "region.yaml"
    file.write_text("apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {name: typo}\nspec: {displayName: Here}\n")
    assert tenantry(*on, "apply", "-f", file, cwd=tmp_path).returncode == 0
    edited = tenantry(*on, "edit", "region/typo", cwd=tmp_path, EDITOR="sed -i s/displayName:/dispalyName:/")
    assert 'unknown field "spec.dispalyName"; did you mean displayName?' in edited.stderr
    assert edited.returncode == 2
    file.write_text(file.read_text().replace("displayName", "dispalyName"))
    applied = tenantry(*on, "apply", "-f", file, cwd=tmp_path)
    assert 'region.yaml:4: spec.dispalyName: unknown field "spec.dispalyName"; did you mean displayName?' in applied.stderr


OPERATION = """
apiVersion: v1
kind: Namespace
metadata: {name: completed}
---
apiVersion: tenantry.dev/v1alpha1
kind: Operation
metadata: {name: op-typed-by-hand, namespace: completed}
spec:
  action: CREATE_TENANT
  cause: "1"
  target: {kind: Tenant, name: completed-tenant, uid: 5b1ff7d8-0c3b-4f0e-9f58-3d4b1a9a7c11}
"""


def test_names_and_operation_ids_are_completed(cluster: Cluster, on: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(DECLARED.replace("cli-", "completed-"))
    assert tenantry(*on, "apply", "-f", file, cwd=tmp_path).returncode == 0
    create = [str(cluster.kubectl), *on, "create", "-f", "-"]
    made = subprocess.run(create, input=OPERATION, text=True, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    kubeconfig = " ".join(on)
    expected = {
        f"tenantry {kubeconfig} get region comp": ["completed-region"],
        f"tenantry {kubeconfig} describe region/comp": ["region/completed-region"],
        f"tenantry {kubeconfig} tree comp": ["completed-tenant"],
        f"tenantry {kubeconfig} logs op-typed": ["op-typed-by-hand"],
        f"tenantry {kubeconfig} get apps -n compl": ["completed"],
    }
    # On a busy machine a server may miss its second; the next try finds it.
    for line, words in expected.items():
        until(lambda: completed(tmp_path, line) == words)  # noqa: B023


def test_completion_is_silent_where_no_server_answers(tmp_path: Path) -> None:
    assert completed(tmp_path, "tenantry --kubeconfig nowhere describe environment/") == []


def test_doctor_looks_at_the_cluster_and_not_at_this_machine(on: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "platform.yaml").write_text(DECLARED.replace("cli-", "ill-") + OPEN_OPERATION)
    assert tenantry(*on, "apply", "-f", "platform.yaml", cwd=tmp_path).returncode == 0
    done = tenantry(*on, "doctor", "--bundle", "report.zip", cwd=tmp_path)
    assert done.returncode == 1, "no operator runs here, so nothing is Ready"
    lines = done.stdout.splitlines()
    assert not [line for line in lines if " disk: " in line or " listen: " in line]
    wrong = next(number for number, line in enumerate(lines) if "Region/ill-region" in line)
    assert lines[wrong + 1] == "      next: tenantry describe region/ill-region"
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        named = {each["metadata"]["name"] for each in json.loads(archive.read("objects/Region.json"))}
        assert archive.read("operations/ill-operation.log").startswith(b"unreadable: "), "no api runs here"
    assert "ill-region" in named
