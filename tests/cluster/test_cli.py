"""The command line on a cluster: the same commands, by --kubeconfig, with the rights that it gives."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster.control_plane import Cluster
from tests.scenario.cli import tenantry

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
        (("plan", "."), "name its api by TENANTRY_SERVER"),
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
    assert (ended.returncode, "nowhere" in ended.stderr, "Traceback" in ended.stderr) == (1, True, False)
