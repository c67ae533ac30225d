"""The operator and the api as processes on a real API server, with the release's own rights; engines are real processes."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.engines import node
from tests.cluster.releases import Run
from tests.cluster.running import Kube, Platform, condition, kubeconfigs, object_, operations, token, until
from tests.scenario.cli import tenantry

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
TAKES_OVER_S = 20.0
SHOP = """
apiVersion: tenantry.dev/app/v1
id: shop
name: Shop
author: Example Ltd
version: 1.0.0
tables:
  - name: items
    primaryKey: [id]
    columns:
      - {name: id, type: integer, generated: true}
"""


@pytest.fixture(scope="module")
def platform(
    own: Cluster, release: str, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("platform")
    with node(own, folder / "node", real=True) as played:
        started = Platform(kube, kubeconfigs(own, kubectl, folder), folder, played.proxy)
        with started.api():
            yield started


@pytest.fixture(scope="module")
def kube(kubectl: Run) -> Kube:
    return Kube(kubectl)


@pytest.fixture
def home(kube: Kube, request: pytest.FixtureRequest, platform: Platform) -> Iterator[str]:
    """A tenant's namespace, whose tenant, gone with the test, has the test's own name."""
    name = "t" + str(abs(hash(request.node.name)) % 10**8)
    kube.apply(object_("Region", "home"), object_("Tenant", name, displayName="Tests"))
    yield f"tenant-{name}"
    kube("delete", "tenant", name, "--ignore-not-found", "--wait=false")
    with platform.leader():
        until(lambda: name not in kube.names("tenants"), "gone: the tenant")


def gone(kube: Kube, namespace: str) -> bool:
    """Is nothing left of the tenant: its namespace, those of its engines, its objects?"""
    engines = [
        each for each in kube.get("namespaces") if each["metadata"].get("labels", {}).get("tenantry.dev/namespace") == namespace
    ]
    return not engines and namespace not in kube.names("namespaces")


def test_a_tenant_with_an_environment_and_an_app_comes_to_ready_and_goes_without_a_trace(
    platform: Platform, kube: Kube, tmp_path: Path
) -> None:
    with platform.leader():
        kube.apply(object_("Region", "home"), object_("Tenant", "shop", displayName="Shop"))
        kube.ready("tenant/shop")
        sha256 = push(platform, kube, tmp_path)
        kube.apply(
            object_("Package", "shop-1", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256),
            object_("Environment", "dev", "tenant-shop", region="home", deletionPolicy="Delete"),
            object_("App", "dev.shop", "tenant-shop", environment="dev", app="shop", version="1.0.0"),
        )
        kube.ready("environment/dev", "tenant-shop")
        kube.ready("app/dev.shop", "tenant-shop")
        assert kube.get("app", "dev.shop", "tenant-shop")["status"]["installedVersion"] == "1.0.0"
        kube("delete", "tenant", "shop", "--timeout=60s")
        until(lambda: gone(kube, "tenant-shop"), "gone")
        kube("delete", "package", "shop-1", "-n", NAMESPACE, "--timeout=30s")


def push(platform: Platform, kube: Kube, folder: Path) -> str:
    """Builds the shop's package and stores it by REST. Returns its sha256."""
    source = folder / "shop"
    source.mkdir()
    (source / "app.yaml").write_text(SHOP)
    built = tenantry("package", "build", source, "-o", folder / "shop.zip", cwd=folder)
    assert built.returncode == 0, built.stderr
    pushed = tenantry(
        *("package", "push", folder / "shop.zip", "--server", platform.api_url, "--token", token(platform.api_url, kube)),
        cwd=folder,
    )
    assert pushed.returncode == 0, pushed.stderr
    return hashlib.sha256((folder / "shop.zip").read_bytes()).hexdigest()


def test_an_edit_is_followed_by_one_operation(platform: Platform, kube: Kube, home: str) -> None:
    with platform.leader():
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete"))
        kube.ready("environment/dev", home)
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete", engine={"size": "medium"}))
        until(lambda: kube.get("environment", "dev", home)["status"]["observedGeneration"] == 2, "seen")
        kube.ready("environment/dev", home)
        assert sorted(operations(kube, home, "dev")) == ["CREATE_ENVIRONMENT", "UPDATE_ENVIRONMENT"]


# Who leads


def test_of_two_operators_one_leads(platform: Platform) -> None:
    with platform.leader() as first, platform.operator() as second:
        until(lambda: second.alive, "standing by")
        assert first.leads
        assert not second.leads


def test_an_end_by_sigterm_hands_over_at_once(platform: Platform) -> None:
    with platform.leader() as first, platform.operator() as second:
        until(lambda: second.alive, "standing by")
        assert first.end() == 0
        began = time.monotonic()
        until(lambda: second.leads, "leading")
        assert time.monotonic() - began < 5


def test_a_killed_leader_is_replaced_in_time(platform: Platform) -> None:
    with platform.leader() as first, platform.operator() as second:
        until(lambda: second.alive, "standing by")
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        began = time.monotonic()
        until(lambda: second.leads, "leading", TAKES_OVER_S)
        assert time.monotonic() - began < TAKES_OVER_S


def test_who_lost_the_lease_ends_with_1(platform: Platform, kube: Kube) -> None:
    with platform.leader() as first:
        kube("patch", "lease", "tenantry-operator", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"holderIdentity":"thief"}}')
        assert first.process.wait(15) == 1
        assert "another may act now: another holds the lease" in first.told()
    kube("delete", "lease", "tenantry-operator", "-n", NAMESPACE)


# Drift


def test_an_engine_object_that_was_deleted_by_hand_is_made_again_by_a_drift_operation(
    platform: Platform, kube: Kube, home: str
) -> None:
    with platform.leader():
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete"))
        kube.ready("environment/dev", home)
        engine = kube.get("environment", "dev", home)["status"]["externalId"].rpartition("/")[2]
        kube("delete", "statefulset", "engine", "-n", engine)
        until(lambda: "CORRECT_DRIFT" in operations(kube, home, "dev"), "corrected")
        kube.ready("environment/dev", home)
        assert kube.names("statefulsets", engine) == ["engine"]


def test_a_tenants_namespace_that_was_deleted_by_hand_comes_back(platform: Platform, kube: Kube, home: str) -> None:
    with platform.leader():
        tenant = home.removeprefix("tenant-")
        kube.ready(f"tenant/{tenant}")
        before = kube.get("namespace", home)["metadata"]["uid"]
        kube("delete", "namespace", home, "--timeout=30s")
        until(lambda: home in kube.names("namespaces") and kube.get("namespace", home)["metadata"]["uid"] != before, "back")
        until(lambda: "tenantry-admin" in kube.names("rolebindings", home), "opened again")
        kube.ready(f"tenant/{tenant}")


def test_a_foreign_namespace_of_a_tenants_name_is_left_alone(platform: Platform, kube: Kube) -> None:
    with platform.leader():
        kube("create", "namespace", "tenant-foreign")
        kube.apply(object_("Tenant", "foreign", displayName="Foreign"))
        until(lambda: condition(kube.get("tenant", "foreign"), "Stalled")["reason"] == "NamespaceTaken", "refused")
        assert kube.names("rolebindings", "tenant-foreign") == []
        kube("delete", "tenant", "foreign", "--timeout=30s")
        assert "tenant-foreign" in kube.names("namespaces")
        kube("delete", "namespace", "tenant-foreign", "--wait=false")


# Writes


def test_a_restart_and_a_resync_write_nothing(platform: Platform, kube: Kube, home: str, own: Cluster) -> None:
    with platform.leader():
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete"))
        kube.ready("environment/dev", home)
    assert own.audit is not None
    before = own.audit.stat().st_size
    with platform.leader(TENANTRY_RESYNC="2s") as operator:
        looked = until(lambda: reads(own.audit, before, "statefulsets") >= 3, "looked at three times")
        assert looked, operator.told()
    written = [each for each in audited(own.audit, before) if each["verb"] in WRITES and mine(each)]
    assert [each["requestURI"] for each in written if "leases" not in each["requestURI"]] == []


WRITES = ("create", "update", "patch", "delete", "deletecollection")


def audited(log: Path | None, since: int) -> list[dict[str, Any]]:
    """What the audit log told since it had that many bytes."""
    assert log is not None
    with log.open() as file:
        file.seek(since)
        return [json.loads(line) for line in file if line.endswith("\n")]


def mine(event: dict[str, Any]) -> bool:
    return bool(event["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:tenantry-operator")


def reads(log: Path | None, since: int, resource: str) -> int:
    """How often the operator asked for an object of that kind."""
    asked = (each for each in audited(log, since) if each["verb"] == "get" and mine(each))
    return sum(1 for each in asked if each["objectRef"]["resource"] == resource)
