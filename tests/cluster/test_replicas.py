"""Two replicas of the api on a real API server: reads follow what the other one wrote, and of two claims one holds."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import pytest

from tests.cluster.control_plane import Cluster
from tests.cluster.releases import Run
from tests.cluster.running import Kube, Platform, condition, kubeconfigs, token, token_of, until

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
VERSION = "Tenantry-Version"


class Answer(NamedTuple):
    status: int
    body: Any
    version: str


class Replicas:
    """The URLs of both, asked as the bootstrap SUPERUSER."""

    def __init__(self, urls: tuple[str, str], kube: Kube) -> None:
        self._urls = urls
        self._token = token(urls[0], kube)

    def as_(self, username: str, password: str) -> Replicas:
        """The same ones, asked as somebody else."""
        other = copy(self)
        other._token = token_of(self._urls[0], username, password)
        return other

    def ask(self, which: int, method: str, path: str, body: object = None, version: str = "") -> Answer:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        headers |= {VERSION: version} if version else {}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._urls[which]}/api/v1{path}", sent, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, json.load(answer), answer.headers.get(VERSION, ""))
        except urllib.error.HTTPError as refusal:
            return Answer(refusal.code, json.load(refusal), "")


@pytest.fixture(scope="module")
def replicas(
    own: Cluster, release: str, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    folder: Path = tmp_path_factory.mktemp("platform")
    platform = Platform(kube, kubeconfigs(own, kubectl, folder), folder, "")
    other = platform.replica(tmp_path_factory.mktemp("other"))
    with platform.api() as first, other.api() as second, platform.leader():
        yield Replicas((first, second), kube)


def test_a_reader_who_names_the_version_sees_what_the_other_replica_wrote(replicas: Replicas) -> None:
    for number in range(20):
        made = replicas.ask(number % 2, "POST", "/tenants", {"name": f"Seen {number}", "slug": f"seen-{number}"})
        assert made.status == 201
        assert replicas.ask(1 - number % 2, "GET", f"/tenants/{made.body['id']}", version=made.version).status == 200


def test_of_two_edits_to_one_slug_at_once_one_holds_it(replicas: Replicas, kube: Kube) -> None:
    names = ("left", "right")
    made = [replicas.ask(0, "POST", "/tenants", {"name": name, "slug": name}) for name in names]
    for name in names:
        kube.ready(f"tenant/{name}")
    together = Barrier(2)

    def edit(which: int) -> int:
        together.wait(10)
        return replicas.ask(which, "PUT", f"/tenants/{made[which].body['id']}", {"slug": "prize"}).status

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(edit, (0, 1)))
    assert set(told) <= {200, 400}
    assert 200 in told, "one of them was first"

    def settled() -> bool:
        tenants = [kube.get("tenant", name) for name in names]
        seen = all(each["status"]["observedGeneration"] == each["metadata"]["generation"] for each in tenants)
        return seen and [each["status"]["slug"] for each in tenants].count("prize") == 1

    until(settled, "settled")
    losers = [kube.get("tenant", name) for name in names if kube.get("tenant", name)["status"]["slug"] != "prize"]
    wanted = [each for each in losers if each["spec"]["slug"] == "prize"]
    assert [condition(each, "Stalled")["reason"] for each in wanted] == ["SlugTaken"] * (told.count(200) - 1)
