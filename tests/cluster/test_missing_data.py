"""The claim of an engine that was Ready is deleted, on a real API server: its data is never covered up by an empty volume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.running import Audit, Kube, Platform, condition, engines, object_, until
from tests.scenario.cli import tenantry
from tests.support.pushing import push

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
CLAIM = "persistentvolumeclaim"


class Lost(NamedTuple):
    """An environment `dev` with an App, whose engine's claim is deleted. space: the engine's namespace; claim: its uid."""

    kube: Kube
    cluster: Cluster
    home: str
    space: str
    claim: str

    @property
    def ready(self) -> tuple[str, str]:
        """The reason and the message of the environment's Ready, at its present generation."""
        found = self.kube.get("environment", "dev", self.home)
        told = condition(found)
        current = told.get("observedGeneration") == found["metadata"]["generation"]
        return (told["reason"], told["message"]) if current else ("", "")

    def accept_empty(self, folder: Path) -> CompletedProcess[str]:
        return tenantry("--kubeconfig", self.cluster.kubeconfig, "accept-empty", f"{self.home}/dev", cwd=folder)


@pytest.fixture
def lost(platform: Platform, kube: Kube, own: Cluster, home: str, tmp_path: Path) -> Iterator[Lost]:
    with platform.leader():
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        sha256 = push(platform, kube, tmp_path)
        kube.apply(
            object_("Package", "lost-shop", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256),
            object_("Environment", "dev", home, region="home", deletionPolicy="Delete"),
            object_("App", "dev.shop", home, environment="dev", app="shop", version="1.0.0"),
        )
        kube.ready("app/dev.shop", home)
        (space,) = engines(kube, home)
        claim = kube.get(CLAIM, "engine", space)["metadata"]["uid"]
        kube("annotate", CLAIM, "engine", "-n", space, "tenantry.dev/deletion-confirmed=true")
        kube("delete", CLAIM, "engine", "-n", space, "--wait=false")
        kube("delete", "pods", "--all", "-n", space, "--wait=false")
        until(lambda: "engine" not in kube.names(CLAIM, space), "the claim is gone")
        yield Lost(kube, own, home, space, claim)
        kube("delete", "app", "dev.shop", "-n", home, "--wait=false")
        kube("delete", "package", "lost-shop", "-n", NAMESPACE, "--wait=false")


def test_nothing_is_deployed_over_a_lost_claim_until_an_empty_one_is_accepted(lost: Lost, tmp_path: Path) -> None:
    kube = lost.kube
    until(lambda: lost.ready[0] == "DataMissing", "noticed", explained=lambda: str(lost.ready))
    for part in (
        f"the PersistentVolumeClaim engine of namespace {lost.space} does not exist",
        "Nothing is deployed in its place",
        "Put it back",
        "tenantry restore FILE",
        f"tenantry accept-empty {lost.home}/dev",
    ):
        assert part in lost.ready[1]
    audit = Audit(lost.cluster)
    kube.apply(object_("Environment", "dev", lost.home, region="home", deletionPolicy="Delete", engine={"size": "medium"}))
    until(lambda: lost.ready[0] == "DataMissing", "still missing after an edit", explained=lambda: str(lost.ready))
    assert [write for write in audit.writes() if f"/namespaces/{lost.space}/" in write] == []
    assert kube.names(CLAIM, lost.space) == []
    accepted = lost.accept_empty(tmp_path)
    assert (accepted.returncode, accepted.stderr) == (0, "")
    kube.ready("environment/dev", lost.home)
    kube.ready("app/dev.shop", lost.home)
    assert kube.get(CLAIM, "engine", lost.space)["metadata"]["uid"] != lost.claim
    refused = lost.accept_empty(tmp_path)
    assert (refused.returncode, "misses no data" in refused.stderr) == (1, True), "it was accepted once"
