"""Alerts and panels that need a cluster: a real Prometheus scrapes an operator and an api over a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.engines import BROKEN
from tests.cluster.running import Kube, Operator, Platform, condition, object_, until
from tests.docs.dashboards import BOARDS
from tests.support.prometheus import Prometheus, kubelet_of, prometheus

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
OF_A_CLUSTER = ("leader_election_master_status", "rest_client_requests_total", "kubelet_volume_stats")
PANELS = [panel for board in BOARDS.values() for panel in board.panels if any(name in panel.expression for name in OF_A_CLUSTER)]
WITHIN_S = 150.0


@contextmanager
def scraped(operator: Operator, platform: Platform, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with samples of the operator, of the api, and of a stand-in for the kubelet."""
    folder.mkdir()
    with kubelet_of(folder) as kubelet:
        targets = {"tenantry-operator": operator.metrics, "tenantry-api": platform.api_metrics, "kubelet": kubelet}
        addresses = {job: url.removeprefix("http://").removesuffix("/metrics") for job, url in targets.items()}
        with prometheus(folder, addresses) as server:
            until(server.scrapes, "scraped", WITHIN_S)
            yield server


def test_a_lease_that_a_lost_operator_holds_raises_its_alert_and_its_end_clears_it(
    platform: Platform, kube: Kube, tmp_path: Path
) -> None:
    """The holder is gone with its node, and the Lease lasts an hour."""
    kube.run("delete", "lease", "tenantry-operator", "-n", NAMESPACE, "--ignore-not-found")
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "lost", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    metadata = {"name": "tenantry-operator", "namespace": NAMESPACE}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    kube("create", "-f", "-", given=lease)
    with platform.operator() as operator:
        until(lambda: operator.alive, "standing by")
        with scraped(operator, platform, tmp_path / "prometheus") as server:
            until(lambda: server.firing() == {"TenantryNoLeader"}, "raised alone", WITHIN_S)
            kube("delete", "lease", "tenantry-operator", "-n", NAMESPACE)
            until(lambda: server.cleared("TenantryNoLeader"), "cleared", WITHIN_S)
            assert operator.leads


def test_an_engine_that_cannot_start_leaves_an_operation_overdue_and_each_panel_of_a_cluster_shows_something(
    platform: Platform, kube: Kube, home: str, tmp_path: Path
) -> None:
    with platform.leader() as operator, scraped(operator, platform, tmp_path / "prometheus") as server:
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        until(lambda: server.cleared("TenantryOperationOverdue"), "at rest", WITHIN_S)
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete", engine={"version": BROKEN}))
        raised = {"TenantryOperationOverdue", "TenantryEngineDown"}
        until(lambda: raised <= server.firing(), "raised", WITHIN_S)
        assert "ErrImageNeverPull" in json.dumps(condition(kube.get("environment", "dev", home)))
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete", engine={}))
        kube.ready("environment/dev", home)
        until(lambda: not raised & server.firing(), "cleared", WITHIN_S)
        empty = {panel.title for panel in PANELS}

        def all_show() -> bool:
            empty.difference_update([panel.title for panel in PANELS if server.numbers(panel.expression)])
            return not empty

        until(all_show, f"a number in each of {empty}", WITHIN_S)
