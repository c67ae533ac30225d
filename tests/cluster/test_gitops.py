"""`tenantry plan SOURCE` and `tenantry drift` against a cluster; engines are real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import Cluster
from tests.cluster.running import Kube, Platform, object_, operations, token, until
from tests.scenario.cli import tenantry

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
SHOP = """
apiVersion: tenantry.dev/app/v1
id: shop
name: Shop
author: Example Ltd
version: VERSION
tables:
  - name: items
    primaryKey: [id]
    columns:
      - {name: id, type: integer, generated: true}
"""
FAX = "      - {name: fax, type: string, length: 20, nullable: true}\n"
DECLARED = """
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: dev, namespace: tenant-plans}
spec: {region: home, deletionPolicy: Delete}
---
apiVersion: tenantry.dev/v1alpha1
kind: Package
metadata: {name: shop-NAME, namespace: tenant-plans}
spec: {app: shop, version: VERSION, source: {path: shop}}
---
apiVersion: tenantry.dev/v1alpha1
kind: App
metadata: {name: dev.shop, namespace: tenant-plans}
spec: {environment: dev, app: shop, version: VERSION}
"""


@pytest.fixture(scope="module", autouse=True)
def leader(platform: Platform) -> Iterator[None]:
    with platform.leader():
        yield


def declared(folder: Path, version: str, columns: str = "") -> None:
    (folder / "shop").mkdir(parents=True, exist_ok=True)
    (folder / "shop" / "app.yaml").write_text((SHOP + columns).replace("VERSION", version))
    (folder / "platform.yaml").write_text(DECLARED.replace("VERSION", version).replace("NAME", version.replace(".", "-")))


def test_what_was_planned_is_what_is_done_or_nothing_is(platform: Platform, kube: Kube, own: Cluster, tmp_path: Path) -> None:
    there = {"TENANTRY_SERVER": platform.api_url, "TENANTRY_TOKEN": token(platform.api_url, kube)}
    cluster = ("--kubeconfig", own.kubeconfig)
    kube.apply(object_("Region", "home"), object_("Tenant", "plans", displayName="Plans"))
    kube.ready("tenant/plans")
    declared(tmp_path / "src", "1.0.0", FAX)
    planned = tenantry("plan", "src", "-o", "plan", cwd=tmp_path, **there)
    assert planned.returncode == 1, planned.stderr
    (tmp_path / "first.plan").write_text(planned.stdout)
    applied = tenantry(*cluster, "apply", "--plan", "first.plan", cwd=tmp_path, **there)
    assert "shop: install 1.0.0" in applied.stdout, applied.stderr
    kube.ready("app/dev.shop", "tenant-plans")
    assert tenantry("plan", "src", cwd=tmp_path, **there).returncode == 0

    declared(tmp_path / "src", "2.0.0")
    second = tenantry("plan", "src", cwd=tmp_path, **there)
    assert (second.returncode, "shop: install 2.0.0, drops column items.fax" in second.stdout) == (1, True), second.stdout
    stale = tenantry(*cluster, "apply", "--plan", "first.plan", cwd=tmp_path, **there)
    assert (stale.returncode, "the plan is out of date" in stale.stderr) == (1, True), stale.stderr
    assert kube.get("app", "dev.shop", "tenant-plans")["spec"]["version"] == "1.0.0"


def test_a_workload_that_somebody_edited_is_told_or_mended(platform: Platform, kube: Kube, own: Cluster, tmp_path: Path) -> None:
    cluster = ("--kubeconfig", own.kubeconfig)
    kube.apply(object_("Region", "home"), object_("Tenant", "drifts", displayName="Drifts"))
    kube.ready("tenant/drifts")
    made = object_("Environment", "dev", "tenant-drifts", region="home", deletionPolicy="Delete", driftPolicy="Warn")
    kube.apply(made)
    kube.ready("environment/dev", "tenant-drifts")
    engine = kube.get("environment", "dev", "tenant-drifts")["status"]["externalId"].rpartition("/")[2]
    assert tenantry(*cluster, "drift", cwd=tmp_path).stdout == "Everything is as declared\n"

    kube("patch", "statefulset", "engine", "-n", engine, "--type=merge", "-p", '{"spec": {"replicas": 0}}')
    told = until(lambda: _drifted(kube), "told")
    assert told["message"] == "its StatefulSet was changed at spec.replicas"
    listed = tenantry(*cluster, "drift", "-o", "json", cwd=tmp_path)
    assert listed.returncode == 1
    assert [(each["object"], each["policy"], each["differs"]) for each in json.loads(listed.stdout)] == [
        ("Environment/tenant-drifts/dev", "Warn", told["message"])
    ]
    assert kube.get("statefulset", "engine", engine)["spec"]["replicas"] == 0

    made["spec"]["driftPolicy"] = "Correct"
    kube.apply(made)
    until(lambda: kube.get("statefulset", "engine", engine)["spec"]["replicas"] == 1, "mended")
    kube.ready("environment/dev", "tenant-drifts")
    until(lambda: not _drifted(kube), "no more told")
    kube("patch", "statefulset", "engine", "-n", engine, "--type=merge", "-p", '{"spec": {"replicas": 0}}')
    until(lambda: "CORRECT_DRIFT" in operations(kube, "tenant-drifts", "dev"), "corrected")
    until(lambda: kube.get("statefulset", "engine", engine)["spec"]["replicas"] == 1, "mended again")


def _drifted(kube: Kube) -> dict[str, Any]:
    conditions = kube.get("environment", "dev", "tenant-drifts")["status"]["conditions"]
    return next((each for each in conditions if (each["type"], each["status"]) == ("Drifted", "True")), {})
