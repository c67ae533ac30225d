"""Faults of the operator, of the API server and beneath both, while 50 environments come and go. Pods only look ready."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.running import Audit, Kube, Platform, condition, engines, kept, object_, until

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
ENVIRONMENTS = [f"e{number:02}" for number in range(50)]
KILLS = 15
"""While they are created, and again while they are deleted."""
WRITES_BETWEEN = 40
"""At most, between two kills."""
SETTLES_S = 120.0
AWAY_S = float(os.environ.get("TENANTRY_TEST_ETCD_AWAY_S", "15"))
"""Longer than a leader may be without its lease."""


def environments(tenant: str) -> list[dict[str, object]]:
    return [object_("Environment", name, f"tenant-{tenant}", region="home", deletionPolicy="Delete") for name in ENVIRONMENTS]


def all_ready(kube: Kube, namespace: str) -> bool:
    found = kube.get("environments", namespace=namespace)
    return len(found) == len(ENVIRONMENTS) and all(condition(each)["status"] == "True" for each in found)


def operations(kube: Kube, namespace: str) -> Counter[tuple[str, str, str]]:
    """Counts of Operations, by action, target and result."""
    found = [each for each in kube.get("operations", namespace=NAMESPACE) if each["spec"]["target"].get("namespace") == namespace]
    return Counter((each["spec"]["action"], each["spec"]["target"]["name"], each["status"]["result"]) for each in found)


def kill_again_and_again(appearing: Platform, own: Cluster, chance: random.Random) -> None:
    """SIGKILL after some writes, KILLS times; who follows has the same name, as a container that is started again."""
    for _ in range(KILLS):
        audit = Audit(own)
        after = chance.randint(1, WRITES_BETWEEN)
        with appearing.operator("victim") as operator:
            began = time.monotonic()
            until(lambda: len(audit.writes()) >= after or time.monotonic() - began > 15, f"at {after} writes", 60)  # noqa: B023
            assert operator.end(signal.SIGKILL) == -signal.SIGKILL, operator.told()


def test_killed_at_random_moments_it_comes_to_the_same_end_by_one_operation_each(
    appearing: Platform, own: Cluster, kube: Kube
) -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    kube.apply(object_("Tenant", "acme", displayName="Acme"))
    with appearing.leader():
        kube.ready("tenant/acme")
    kube.apply(*environments("acme"))
    kill_again_and_again(appearing, own, chance)
    with appearing.operator("victim"):
        until(lambda: all_ready(kube, "tenant-acme"), "ready", SETTLES_S)
        assert operations(kube, "tenant-acme") == {("CREATE_ENVIRONMENT", name, "SUCCESS"): 1 for name in ENVIRONMENTS}
        assert len(engines(kube, "tenant-acme")) == len(ENVIRONMENTS)

    kube("delete", "environments", "--all", "-n", "tenant-acme", "--wait=false")
    kill_again_and_again(appearing, own, chance)
    with appearing.operator("victim"):
        until(lambda: not kube.get("environments", namespace="tenant-acme"), "gone", SETTLES_S)
        done = operations(kube, "tenant-acme")
        assert {key: count for key, count in done.items() if key[0] == "DELETE_ENVIRONMENT"} == {
            ("DELETE_ENVIRONMENT", name, "SUCCESS"): 1 for name in ENVIRONMENTS
        }
        assert engines(kube, "tenant-acme") == []
        kube("delete", "tenant", "acme", "--timeout=60s")
        assert "tenant-acme" not in kube.names("namespaces")


def test_an_api_server_that_restarts_and_an_etcd_that_is_away_cost_nothing(appearing: Platform, own: Cluster, kube: Kube) -> None:
    plane = own.control_plane
    assert plane is not None
    with kept(appearing):
        kube.apply(object_("Tenant", "calm", displayName="Calm"))
        kube.ready("tenant/calm")
        half = len(ENVIRONMENTS) // 2
        kube.apply(*environments("calm")[:half])
        plane.stop("kube-apiserver")
        plane.start()
        kube.apply(*environments("calm")[half:])
        plane.stop("etcd")
        time.sleep(AWAY_S)
        plane.start()
        until(lambda: all_ready(kube, "tenant-calm"), "ready", SETTLES_S)
        assert operations(kube, "tenant-calm") == {("CREATE_ENVIRONMENT", name, "SUCCESS"): 1 for name in ENVIRONMENTS}
        kube("delete", "tenant", "calm", "--timeout=55s", "--wait=false")
        until(lambda: "calm" not in kube.names("tenants"), "gone", SETTLES_S)
        assert engines(kube, "tenant-calm") == []
