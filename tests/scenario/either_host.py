"""The fixture `host`: a platform on one machine, and one on a cluster. It needs the fixtures of tests.cluster.releases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.engines import node
from tests.cluster.running import Kube, kubeconfigs
from tests.cluster.running import Platform as Processes
from tests.cluster.running import token as token_of
from tests.scenario.cli import called, serving
from tests.scenario.hosts import Host

HOSTS = ["one machine", pytest.param("a cluster", marks=pytest.mark.cluster)]


@pytest.fixture(scope="module", params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    yield from running(request, tmp_path_factory.mktemp("host"))


def running(request: pytest.FixtureRequest, folder: Path, **settings: str) -> Iterator[Host]:
    """The platform that the parameter of a fixture names; settings: environment variables of its processes."""
    if request.param == "one machine":
        yield from _one_machine(folder, settings)
    else:
        yield from _cluster(request, folder, settings)


def _one_machine(folder: Path, settings: dict[str, str]) -> Iterator[Host]:
    (folder / "nothing").mkdir()
    with serving("up", "nothing", "--listen", "127.0.0.1:0", cwd=folder, **settings) as running:
        given = called("token", cwd=folder)
        assert given.returncode == 0, given.stderr
        yield Host(lambda *words, stdin="": called(*words, cwd=folder, stdin=stdin), running.url, given.stdout.strip())


def _cluster(request: pytest.FixtureRequest, folder: Path, settings: dict[str, str]) -> Iterator[Host]:
    cluster, run = request.getfixturevalue("own"), request.getfixturevalue("kubectl")
    request.getfixturevalue("release")
    kube = Kube(run)
    with node(cluster, folder / "node", real=True) as played:
        processes = Processes(kube, kubeconfigs(cluster, run, folder), folder, played.proxy)
        with processes.api(**settings) as url, processes.leader(**settings):
            token = token_of(url, kube)
            variables: dict[str, Any] = {"TENANTRY_SERVER": url, "TENANTRY_TOKEN": token}
            variables["TENANTRY_KUBECONFIG"] = str(cluster.kubeconfig)
            yield Host(lambda *words, stdin="": called(*words, cwd=folder, stdin=stdin, **variables), url, token)
