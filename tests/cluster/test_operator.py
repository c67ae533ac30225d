"""The operator and the api as processes on a real API server, with the release's own rights; engines are real processes."""

from __future__ import annotations

import hashlib
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.engines import BROKEN
from tests.cluster.releases import OPERATOR, refused
from tests.cluster.running import Audit, Kube, Platform, condition, engines, object_, operations, token, until
from tests.scenario.cli import tenantry

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
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


def gone(kube: Kube, namespace: str) -> bool:
    """Is nothing left of the tenant: its namespace, and those of its engines?"""
    return not engines(kube, namespace) and namespace not in kube.names("namespaces")


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


def test_a_superuser_makes_an_identity_with_its_password_in_a_tenants_namespace_by_rest(
    platform: Platform, kube: Kube, home: str
) -> None:
    with platform.leader():
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete"))
        kube.ready("environment/dev", home)
        uid = kube.get("environment", "dev", home)["metadata"]["uid"]
        asked = urllib.request.Request(
            f"{platform.api_url}/engines/{uid}/api/v1/admin/identities",
            b'{"username": "bob", "password": "correct horse battery"}',
            {"Authorization": f"Bearer {token(platform.api_url, kube)}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert answer.status in (200, 201)
        (bob,) = kube.get("identities", namespace=home)
        kube.ready(f"identity/{bob['metadata']['name']}", home)


def test_the_way_to_ready_is_told_by_events(platform: Platform, kube: Kube, home: str) -> None:
    with platform.leader():
        kube.apply(object_("Environment", "lost", home, region="late", deletionPolicy="Delete"))
        until(lambda: ("Normal", "RegionNotFound") in events(kube, "lost"), "told")
        kube.apply(object_("Region", "late"))
        kube.ready("environment/lost", home)
        until(lambda: ("Normal", "Succeeded") in events(kube, "lost"), "told")
        assert "RegionNotFound" in kube("describe", "environment", "lost", "-n", home)


def events(kube: Kube, name: str) -> set[tuple[str, str]]:
    """Type and reason of what was told of an object."""
    told = kube.get("events")
    return {(each["type"], each["reason"]) for each in told if each["involvedObject"]["name"] == name}


def test_an_engine_that_cannot_start_is_told_and_starts_once_it_is_corrected(platform: Platform, kube: Kube, home: str) -> None:
    with platform.leader():
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete", engine={"version": BROKEN}))
        until(lambda: "ErrImageNeverPull" in condition(kube.get("environment", "dev", home))["message"], "told")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete", engine={}))
        until(lambda: kube.get("environment", "dev", home)["status"]["observedGeneration"] == 2, "seen")
        kube.ready("environment/dev", home)


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


def test_a_tenants_namespace_is_not_deleted_by_hand_and_comes_back_with_its_environment_when_it_is_all_the_same(
    platform: Platform, kube: Kube, home: str
) -> None:
    def uid(namespace: str) -> str:
        return kube.run("get", "namespace", namespace, "-o", "jsonpath={.metadata.uid}").stdout

    with platform.leader():
        tenant = home.removeprefix("tenant-")
        kube.ready(f"tenant/{tenant}")
        refused(kube.run("delete", "namespace", home), f"is the namespace of tenant {tenant}: delete the Tenant instead")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete"))
        kube.ready("environment/dev", home)
        before = uid(home)
        kube("delete", "namespace", home, "--as", OPERATOR, "--wait=false")
        until(lambda: uid(home) not in ("", before), "back", 60)
        until(lambda: "tenantry-admin" in kube.names("rolebindings", home), "opened again")
        kube.ready(f"tenant/{tenant}")
        until(lambda: not engines(kube, home), "gone: the engine of the environment that went")


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
        until(lambda: not [each for each in kube.get("tenants") if "deletionTimestamp" in each["metadata"]], "quiet", 60)
    audit = Audit(own)
    with platform.leader(TENANTRY_RESYNC="2s"):
        until(lambda: audit.lists("environments") >= 5, "listed by kopf, by itself, and by three resyncs")
    assert audit.writes() == []
