"""The operator and the api as processes on a real API server, with the release's own rights; engines are real processes."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from tenantry.adapters.kubernetes.engines.workload import SPEC_ANNOTATION
from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.engines import BROKEN
from tests.cluster.releases import OPERATOR, refused
from tests.cluster.running import Audit, Kube, Platform, condition, engines, object_, operations, token, until
from tests.support.patience import BUSY, DEADLINE_S
from tests.support.pushing import push

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
TAKES_OVER_S = 20.0


def gone(kube: Kube, namespace: str) -> bool:
    """Return True if nothing is left of the tenant: neither its namespace nor those of its engines."""
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
    """Type and reason of an object's Events."""
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


def test_the_metrics_of_each_operator_show_whether_it_leads_and_what_it_does(platform: Platform) -> None:
    with platform.leader() as first, platform.operator() as second:
        until(lambda: second.alive, "standing by")
        assert 'leader_election_master_status{name="tenantry-operator"} 1.0' in first.exposed()
        assert 'leader_election_master_status{name="tenantry-operator"} 0.0' in second.exposed()
        until(lambda: re.search(r'reconcile_total{controller="user",result="success"} [1-9]', first.exposed()), "a pass")
        assert 'rest_client_requests_total{code="200",method="GET"}' in first.exposed()


def test_the_metrics_of_the_api_are_its_own_and_those_of_its_client(platform: Platform) -> None:
    with urllib.request.urlopen(f"{platform.api_url}/readyz", timeout=30):
        pass
    with urllib.request.urlopen(platform.api_metrics, timeout=30) as answer:
        told = answer.read().decode()
    for line in (
        'rest_client_requests_total{code="200",method="GET"}',
        'tenantry_resources{kind="Tenant"}',
        "process_cpu_seconds",
    ):
        assert line in told
    assert re.search(r'^tenantry_requests_total\{code="200",method="GET",route="/readyz"\} ', told, re.MULTILINE)
    assert "controller_runtime_" not in told, "the api has no passes"


def test_an_end_by_sigterm_hands_over_at_once(platform: Platform, kube: Kube) -> None:
    """The lease is let go at the end: the other operator need not wait until it expires."""
    with platform.leader() as first, platform.operator() as second:
        until(lambda: second.alive, "standing by")
        assert first.end() == 0
        assert kube.get("lease", "tenantry-operator", NAMESPACE)["spec"].get("holderIdentity", "") in ("", second.name)
        until(lambda: second.leads, "leading")


def test_a_killed_leader_is_replaced_in_time(platform: Platform) -> None:
    with platform.leader() as first, platform.operator() as second:
        until(lambda: second.alive, "standing by")
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: second.leads, "leading", TAKES_OVER_S * BUSY)


def test_who_lost_the_lease_ends_with_1(platform: Platform, kube: Kube) -> None:
    with platform.leader() as first:
        kube("patch", "lease", "tenantry-operator", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"holderIdentity":"thief"}}')
        assert first.process.wait(DEADLINE_S) == 1
        assert "another may act now: another process holds the lease" in first.told()
    kube("delete", "lease", "tenantry-operator", "-n", NAMESPACE)


# Drift


def test_of_two_environments_at_one_host_the_younger_gives_it_up_and_gets_it_back(
    platform: Platform, kube: Kube, home: str
) -> None:
    """As two operators leave them that each missed the other's write: both statuses and both Ingresses carry the host."""
    kube.apply(object_("Region", "published", subdomain="eu.example.com", kubernetes={"ingressClassName": "nginx"}))
    elder, younger = (
        object_("Environment", name, home, region="published", slug=slug, deletionPolicy="Delete")
        for name, slug in (("elder", "prize"), ("younger", "other"))
    )
    with platform.leader():
        for each in (elder, younger):
            kube.apply(each)
            kube.ready(f"environment/{each['metadata']['name']}", home)
            second = int(time.time())
            until(lambda: int(time.time()) > second, "in another second")  # noqa: B023 - creation times are whole seconds
    engine, slug = _take_the_host(kube, home, "younger", "prize")
    before = kube.get("statefulset", "engine", engine)["metadata"]
    with platform.leader():
        until(lambda: condition(kube.get("environment", "younger", home), "Stalled")["reason"] == "SlugTaken", "refused")
        lost = kube.get("environment", "younger", home)
        assert (lost["status"].get("slug"), lost["status"].get("url")) == (None, None)
        assert "elder" not in condition(lost, "Stalled")["message"]
        until(lambda: not kube.names("ingress", engine), "withdrawn")
        assert kube.names("persistentvolumeclaim", engine) == ["engine"]
        assert condition(kube.get("environment", "elder", home))["status"] == "True"
        kube("delete", "environment", "elder", "-n", home, "--timeout=60s")
        kube.ready("environment/younger", home)
        (rule,) = kube.get("ingress", "engine", engine)["spec"]["rules"]
        assert rule["host"] == f"prize--{slug}.eu.example.com"
        assert kube.get("statefulset", "engine", engine)["metadata"]["uid"] == before["uid"]


def _take_the_host(kube: Kube, home: str, name: str, slug: str) -> tuple[str, str]:
    """Give an environment a slug as an operator does that sees no other holder. Return its engine's namespace and the
    tenant's slug."""
    there = kube.get("environment", name, home)
    engine, tenant = there["status"]["externalId"].partition("/")[2], there["status"]["tenantSlug"]
    workload = kube.get("statefulset", "engine", engine)["metadata"]["annotations"]
    spec = json.loads(workload[SPEC_ANNOTATION])
    written = json.dumps({**spec, "ref": {**spec["ref"], "slug": slug}}, sort_keys=True)
    host = {"op": "replace", "path": "/spec/rules/0/host", "value": f"{slug}--{tenant}.eu.example.com"}
    patches: list[tuple[str, ...]] = [
        ("environment", name, home, "merge", json.dumps({"spec": {"slug": slug}})),
        ("environment", name, home, "merge", json.dumps({"status": {"slug": slug}}), "--subresource=status"),
        ("statefulset", "engine", engine, "merge", json.dumps({"metadata": {"annotations": {SPEC_ANNOTATION: written}}})),
        ("ingress", "engine", engine, "json", json.dumps([host])),
    ]
    for kind, which, namespace, form, patch, *more in patches:
        kube("patch", kind, which, "-n", namespace, f"--type={form}", "-p", patch, *more)
    return engine, tenant


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


def test_an_object_that_a_client_writes_without_end_is_named_and_counted(platform: Platform, kube: Kube, home: str) -> None:
    tenant = home.removeprefix("tenant-")
    with platform.leader() as operator:
        kube.ready(f"tenant/{tenant}")

        def passes() -> float:
            found = re.search(r'reconcile_total{controller="tenant",result="success"} (\S+)', operator.exposed())
            return float(found[1]) if found else 0.0

        for number in range(40):
            before = passes()
            kube("annotate", "tenant", tenant, f"example.com/touched={number}", "--overwrite")
            until(lambda before=before: passes() > before, "a pass")  # type: ignore[misc]
        until(lambda: condition(kube.get("tenant", tenant), "Hot").get("status") == "True", "named")
        until(lambda: 'tenantry_hot_objects{kind="Tenant"} 1.0' in operator.exposed(), "counted")
        assert "is reconciled too often" in operator.log.read_text()
