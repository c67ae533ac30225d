"""The platform of a module's tests: an api that runs, engines that are played, and kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.control_plane import Cluster
from tests.cluster.engines import node
from tests.cluster.releases import Run
from tests.cluster.running import Kube, Platform, kubeconfigs, object_


@pytest.fixture(scope="module")
def kube(kubectl: Run) -> Kube:
    return Kube(kubectl)


@pytest.fixture(scope="module")
def platform(
    own: Cluster, release: str, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    """Its engines are real processes."""
    with _running(own, kubectl, kube, tmp_path_factory.mktemp("platform"), real=True) as started:
        yield started


@pytest.fixture(scope="module")
def appearing(
    own: Cluster, release: str, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    """Its engines only look ready. It has the Region `home`."""
    with _running(own, kubectl, kube, tmp_path_factory.mktemp("platform"), real=False) as started:
        kube.apply(object_("Region", "home"))
        yield started


@contextmanager
def _running(own: Cluster, kubectl: Run, kube: Kube, folder: Path, *, real: bool) -> Iterator[Platform]:
    with node(own, folder / "node", real=real) as played:
        started = Platform(kube, kubeconfigs(own, kubectl, folder), folder, played.proxy)
        with started.api():
            yield started


@pytest.fixture
def home(kube: Kube, request: pytest.FixtureRequest, platform: Platform) -> Iterator[str]:
    """A tenant's namespace, whose tenant, gone with the test, has the test's own name."""
    name = "t" + str(abs(hash(request.node.name)) % 10**8)
    kube.apply(object_("Region", "home"), object_("Tenant", name, displayName="Tests"))
    yield f"tenant-{name}"
    # A cluster takes its time to empty a namespace: the operators of later tests see to it.
    kube("delete", "tenant", name, "--ignore-not-found", "--wait=false")
