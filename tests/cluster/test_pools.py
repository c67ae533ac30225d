"""Pools on a real API server: many environments in one pod, each as it would be in a pod of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.engines import BROKEN
from tests.cluster.running import Kube, Operator, Platform, condition, engines, object_, until
from tests.support.pool_servers import PoolServerKit
from tests.support.pushing import push

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
POOLS = {"pools": [{"name": "small", "enginesPerReplica": 2}]}
PUBLISHED: dict[str, Any] = {"subdomain": "eu.example.com", "kubernetes": {"ingressClassName": "nginx"}}
CLAIMS = "persistentvolumeclaims"
ALICE = {"environment": "dev", "username": "alice", "passwordSecretRef": {"name": "alice", "key": "password"}}


class World(NamedTuple):
    """A Region with a pool for two engines. home: a tenant's namespace. space: the pool's namespace."""

    kube: Kube
    platform: Platform
    operator: Operator
    home: str
    space: str

    def environment(self, name: str, **engine: Any) -> dict[str, Any]:
        return object_("Environment", name, self.home, region="pooled", deletionPolicy="Delete", engine=engine)

    def reason(self, name: str) -> str:
        return str(condition(self.kube.get("environment", name, self.home))["reason"])

    def remove(self, name: str) -> None:
        self.kube("delete", "environment", name, "-n", self.home, "--wait=false")
        until(lambda: name not in self.kube.names("environment", self.home), f"{name} is gone", explained=self.operator.told)

    def sign_in(self, host: str, username: str, password: str) -> int:
        form = {"username": username, "password": password}
        url = f"http://engine.{self.space}.svc:8080/api/v1/auth/token"
        with httpx.Client(proxy=self.platform.proxy, trust_env=False, timeout=30) as client:
            return client.post(url, data=form, headers={"Host": host}).status_code


@pytest.fixture
def pooled(platform: Platform, kube: Kube, home: str) -> Iterator[World]:
    with platform.leader() as operator:
        kube.apply(object_("Region", "pooled", engine=POOLS, **PUBLISHED))
        kube.ready("region/pooled", within=300)
        (pool,) = kube.get("region", "pooled")["status"]["pools"]
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        yield World(kube, platform, operator, home, f"env-{pool['id']}")
        kube("delete", "environments", "--all", "-n", home, "--wait=false")
        until(lambda: not kube.names("environment", home), "no environment is left", explained=operator.told)
        kube("delete", "region", "pooled", "--wait=false")
        until(lambda: "pooled" not in kube.names("region"), "the region is gone", explained=operator.told)
        until(lambda: f"env-{pool['id']}" not in kube.names("namespaces"), "the pool is gone", explained=operator.told)


def test_environments_share_a_pod_and_each_has_its_own_apps_people_and_host(pooled: World, tmp_path: Path) -> None:
    kube, home = pooled.kube, pooled.home
    sha256 = push(pooled.platform, kube, tmp_path)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "alice", "namespace": home, "labels": {"tenantry.dev/credential": "identity"}},
        "stringData": {"password": "correct horse"},
    }
    kube.apply(
        object_("Package", "pooled-shop", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256),
        secret,
        pooled.environment("dev"),
        pooled.environment("live"),
        object_("App", "dev.shop", home, environment="dev", app="shop", version="1.0.0"),
        object_("Identity", "alice", home, **ALICE, roles=[]),
    )
    for what in ("environment/dev", "environment/live", "app/dev.shop", "identity/alice"):
        kube.ready(what, home, within=300)
    assert [space for space in engines(kube, home) if space != pooled.space] == []
    assert kube.names("pods", pooled.space) == ["engine-0"]
    assert kube.names(CLAIMS, pooled.space) == ["engine"]
    slug = home.removeprefix("tenant-")
    hosts = {f"{name}--{slug}.eu.example.com" for name in ("dev", "live")}
    assert {rule["host"] for each in kube.get("ingress", namespace=pooled.space) for rule in each["spec"]["rules"]} == hosts
    dev, live = sorted(hosts)
    assert (pooled.sign_in(dev, "alice", "correct horse"), pooled.sign_in(live, "alice", "correct horse")) == (200, 401)
    assert {each["status"]["url"] for each in kube.get("environment", namespace=home)} == {f"https://{host}" for host in hosts}
    kube("delete", "package", "pooled-shop", "-n", NAMESPACE, "--wait=false")


def test_a_full_pool_says_so_and_takes_the_next_once_there_is_room(pooled: World) -> None:
    kube, home = pooled.kube, pooled.home
    kube.apply(pooled.environment("one"), pooled.environment("two"))
    for name in ("one", "two"):
        kube.ready(f"environment/{name}", home, within=300)
    kube.apply(pooled.environment("three"))
    until(lambda: pooled.reason("three") == "PoolFull", "full", explained=lambda: pooled.reason("three"))
    pooled.remove("one")
    kube("annotate", "environment", "three", "-n", home, "tenantry.dev/reconcile-requested-at=now")
    kube.ready("environment/three", home, within=300)
    assert kube.get("environment", "two", home)["status"]["engine"]["pool"] == pooled.space.removeprefix("env-")


def test_a_pool_that_does_not_start_says_so_and_its_environments_wait(platform: Platform, kube: Kube, home: str) -> None:
    dev = object_("Environment", "dev", home, region="stuck", deletionPolicy="Delete")
    with platform.leader(TENANTRY_CLUSTER__IMAGE=f"tenantry:{BROKEN}") as operator:
        kube.apply(object_("Region", "stuck", engine=POOLS), dev)

        def told(what: str, name: str, namespace: str = "") -> str:
            found = condition(kube.get(what, name, namespace))
            return f"{found['reason']}: {found['message']}"

        until(lambda: "PoolFailed: pool small: ErrImageNeverPull" in told("region", "stuck"), "says so", explained=operator.told)
        until(lambda: "does not answer" in told("environment", "dev", home), "it waits", explained=operator.told)
        (pool,) = kube.get("region", "stuck")["status"]["pools"]
        assert pool["status"] == "FAILED"
    with platform.leader():
        kube.ready("region/stuck", within=300)
        kube.ready("environment/dev", home, within=300)
        kube("delete", "environment", "dev", "-n", home, "--timeout=90s")
        kube("delete", "region", "stuck", "--timeout=90s")


def test_what_is_removed_by_hand_comes_back(pooled: World) -> None:
    kube, home = pooled.kube, pooled.home
    kube.apply(pooled.environment("dev"))
    kube.ready("environment/dev", home, within=300)
    (ingress,) = kube.names("ingress", pooled.space)
    kube("delete", "ingress", ingress, "-n", pooled.space)
    until(lambda: kube.names("ingress", pooled.space) == [ingress], "its Ingress is back", explained=pooled.operator.told)
    kube("delete", "service", "engine", "-n", pooled.space)
    until(lambda: kube.names("service", pooled.space) == ["engine"], "the pool's Service is back", explained=pooled.operator.told)


def test_what_ran_before_there_was_a_pool_stays_until_a_pool_is_declared(pooled: World) -> None:
    kube, home = pooled.kube, pooled.home
    kube.apply(pooled.environment("own", placement="Dedicated"))
    kube.ready("environment/own", home, within=300)
    (space,) = engines(kube, home)
    before = kube.get("pod", "engine-0", space)["metadata"]["uid"]
    kube.apply(pooled.environment("own"))
    generation = kube.get("environment", "own", home)["metadata"]["generation"]
    until(lambda: kube.get("environment", "own", home)["status"]["observedGeneration"] == generation, "seen")
    kube.ready("environment/own", home)
    assert kube.get("pod", "engine-0", space)["metadata"]["uid"] == before
    kube.apply(pooled.environment("own", placement="Pooled"))
    until(lambda: kube.get("environment", "own", home)["status"]["engine"].get("pool"), "moved", explained=pooled.operator.told)
    kube.ready("environment/own", home, within=300)
    until(lambda: space not in engines(kube, home), "its pod is gone", explained=pooled.operator.told)


def test_the_platforms_default_pool_takes_new_environments_and_restarts_none(platform: Platform, kube: Kube, home: str) -> None:
    with platform.leader():
        kube.apply(object_("Region", "plain"), _in_plain("old", home))
        kube.ready("environment/old", home, within=300)
    (space,) = engines(kube, home)
    before = kube.get("pod", "engine-0", space)["metadata"]["uid"]
    with platform.leader(TENANTRY_CLUSTER__DEFAULT_POOL="true") as operator:
        until(lambda: kube.get("region", "plain")["status"].get("pools"), "it has a pool", explained=operator.told)
        (pool,) = kube.get("region", "plain")["status"]["pools"]
        kube.apply(_in_plain("new", home))
        kube.ready("environment/new", home, within=300)
        assert (pool["name"], kube.get("environment", "new", home)["status"]["engine"]["pool"]) == ("default", pool["id"])
        kube.ready("environment/old", home)
        assert kube.get("pod", "engine-0", space)["metadata"]["uid"] == before
    kube("delete", "environments", "--all", "-n", home, "--wait=false")  # the next operator removes the pool, too


def test_an_upgrade_gives_no_pool_to_regions_that_exist_and_new_regions_have_one(
    platform: Platform, kube: Kube, home: str
) -> None:
    with platform.leader() as operator:
        kube.apply(object_("Region", "plain"), _in_plain("old", home))
        kube.ready("environment/old", home, within=300)
        pools = "the pool of the test before is gone"
        until(lambda: not kube.get("region", "plain")["status"].get("pools"), pools, explained=operator.told)
    with platform.leader(TENANTRY_CLUSTER__DEFAULT_POOL="new"):
        kube.apply(object_("Region", "fresh"), _in_plain("later", home))
        kube.apply(object_("Environment", "new", home, region="fresh", deletionPolicy="Delete"))
        for name in ("old", "later", "new"):
            kube.ready(f"environment/{name}", home, within=300)
        (pool,) = kube.get("region", "fresh")["status"]["pools"]
        assert kube.get("region", "plain")["status"].get("pools", []) == []
        found = kube.get("environment", namespace=home)
        placed = {each["metadata"]["name"]: each["status"]["engine"].get("pool", "") for each in found}
        assert placed == {"old": "", "later": "", "new": pool["id"]}
        kube("delete", "environments", "--all", "-n", home, "--timeout=90s")
        kube("delete", "region", "fresh", "plain", "--timeout=90s")


def _in_plain(name: str, home: str) -> dict[str, Any]:
    return object_("Environment", name, home, region="plain", deletionPolicy="Delete")


def secret_of(server: PoolServerKit) -> dict[str, Any]:
    """The Secret with the URL of a server."""
    metadata = {"name": "pool-server", "namespace": NAMESPACE, "labels": {"tenantry.dev/credential": "region"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"url": server.admin}}


ON_SERVER = {"pools": [{"name": "server", "postgres": {"adminSecretRef": {"name": "pool-server", "key": "url"}}}]}


def test_each_engine_of_a_pool_on_a_server_has_a_database_until_its_environment_is_deleted(
    platform: Platform, kube: Kube, home: str, pool_server: PoolServerKit, tmp_path: Path
) -> None:
    def environment(name: str) -> dict[str, Any]:
        return object_("Environment", name, home, region="served", deletionPolicy="Snapshot")

    def told() -> str:
        return f"{condition(kube.get('region', 'served'))}"

    with platform.leader() as operator:
        kube.apply(object_("Region", "served", engine=ON_SERVER), environment("dev"))
        until(lambda: "SecretNotFound" in told() and NAMESPACE in told(), "it waits for the Secret", explained=told)
        kube.apply(secret_of(pool_server))
        kube.ready("region/served", within=300)
        sha256 = push(platform, kube, tmp_path)
        kube.apply(
            environment("live"),
            object_("Package", "served-shop", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256),
            object_("App", "dev.shop", home, environment="dev", app="shop", version="1.0.0"),
        )
        for what in ("environment/dev", "environment/live", "app/dev.shop"):
            kube.ready(what, home, within=300)
        ids = {name: kube.get("environment", name, home)["metadata"]["uid"] for name in ("dev", "live")}
        (pool,) = kube.get("region", "served")["status"]["pools"]
        space = f"env-{pool['id']}"
        assert (kube.names("pods", space), kube.names(CLAIMS, space)) == (["engine-0", "engine-1"], [])
        names = pool_server.names()
        assert {name.rpartition("_")[2] for name in names} == set(ids.values())
        (dev,) = (name for name in names if name.endswith(ids["dev"]))
        assert pool_server.tables(dev) >= {"_tenantry_installed", "shop__items"}
        kube("delete", "environment", "dev", "-n", home, "--wait=false")
        until(lambda: pool_server.names() == names - {dev}, "its database is gone", explained=operator.told)
        until(lambda: kube.names("environment", home) == ["live"], "dev is gone", explained=operator.told)
        kube("delete", "environment", "live", "-n", home, "--timeout=90s")
        kube("delete", "package", "served-shop", "-n", NAMESPACE, "--wait=false")
        kube("delete", "region", "served", "--timeout=90s")
    assert pool_server.names() == set()


AUTOSCALER = "horizontalpodautoscaler"


class Scaled(NamedTuple):
    """A Region with a pool on a server, whose autoscaler this test plays. space: the pool's namespace."""

    kube: Kube
    space: str

    def declare(self, size: str = "small", **pods: int) -> None:
        """Declare the pool, and wait until the operator has seen it."""
        server = {"adminSecretRef": {"name": "pool-server", "key": "url"}, **pods}
        self.kube.apply(object_("Region", "scaled", engine={"pools": [{"name": "server", "size": size, "postgres": server}]}))
        seen = self.kube.get("region", "scaled")["metadata"]["generation"]
        until(lambda: self.kube.get("region", "scaled")["status"].get("observedGeneration") == seen, "seen")
        self.kube.ready("region/scaled", within=300)

    @property
    def workload(self) -> Any:
        return self.kube.get("statefulset", "engine", self.space)

    def scale(self, number: int) -> None:
        """Set the number of pods as the autoscaler does."""
        self.kube("scale", "statefulset", "engine", "-n", self.space, f"--replicas={number}")
        until(lambda: len(self.kube.names("pods", self.space)) == number, f"{number} pods")

    @property
    def bounds(self) -> tuple[int, int]:
        rules = self.kube.get(AUTOSCALER, "engine", self.space)["spec"]
        return rules["minReplicas"], rules["maxReplicas"]

    def repaired(self, operator: Operator) -> None:
        """The operator has written to the pool anew."""
        self.kube("delete", "service", "engine", "-n", self.space)
        until(lambda: self.kube.names("service", self.space) == ["engine"], "its Service is back", explained=operator.told)

    def restarted(self, size: str) -> bool:
        """Return True if all pods are of that size, and ready."""
        pods = self.kube.get("pods", namespace=self.space)
        asked = {"small": "10m", "medium": "250m"}[size]
        sizes = {pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods}
        return sizes == {asked} and self.workload["status"].get("readyReplicas") == self.workload["spec"]["replicas"] == len(pods)


def test_the_operator_leaves_the_number_of_pods_to_an_autoscaler_and_keeps_that(
    platform: Platform, kube: Kube, pool_server: PoolServerKit
) -> None:
    with platform.leader() as operator:
        kube.apply(secret_of(pool_server))
        Scaled(kube, "").declare(replicas=1, maxReplicas=4)
        (pool,) = kube.get("region", "scaled")["status"]["pools"]
        scaled = Scaled(kube, f"env-{pool['id']}")
        assert (scaled.bounds, scaled.workload["spec"]["replicas"]) == ((1, 4), 1)
        scaled.scale(3)
        scaled.repaired(operator)
        assert scaled.workload["spec"]["replicas"] == 3
        kube("delete", AUTOSCALER, "engine", "-n", scaled.space)
        until(lambda: kube.names(AUTOSCALER, scaled.space) == ["engine"], "it is back", explained=operator.told)
        kube("patch", AUTOSCALER, "engine", "-n", scaled.space, "--type=merge", "-p", '{"spec": {"maxReplicas": 50}}')
        until(lambda: scaled.bounds == (1, 4), "its maximum is back", explained=operator.told)
        scaled.declare("medium", replicas=1, maxReplicas=4)
        until(lambda: scaled.restarted("medium"), "all have restarted", explained=operator.told)
        assert scaled.workload["spec"]["replicas"] == 3
        before = scaled.workload["metadata"]["generation"]
    with platform.leader() as operator:
        scaled.repaired(operator)
        assert (scaled.workload["spec"]["replicas"], scaled.workload["metadata"]["generation"]) == (3, before)
        scaled.declare("medium", replicas=2)
        until(lambda: kube.names(AUTOSCALER, scaled.space) == [], "it is gone", explained=operator.told)
        until(lambda: scaled.workload["spec"]["replicas"] == 2, "the declared number", explained=operator.told)
        scaled.declare("medium", replicas=2, maxReplicas=3)
        until(lambda: kube.names(AUTOSCALER, scaled.space) == ["engine"], "it is there again", explained=operator.told)
        kube("delete", "region", "scaled", "--timeout=90s")
        until(lambda: scaled.space not in kube.names("namespaces"), "nothing is left", explained=operator.told)
