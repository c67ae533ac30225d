"""Moves on a real API server: out of a pod into a pool, to another pool and back, while operator, pool and pod are killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.engines import Node, node
from tests.cluster.releases import Run
from tests.cluster.running import Kube, Operator, Platform, condition, engines, kubeconfigs, object_, operations, until
from tests.support.pushing import SHOP, push

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
POOLS = {"pools": [{"name": "small"}, {"name": "other"}]}
PUBLISHED: dict[str, Any] = {"subdomain": "eu.example.com", "kubernetes": {"ingressClassName": "nginx"}}
MANIFEST = f"{SHOP}      - {{name: name, type: string, length: 40}}\nroles: {{editor: {{items: [read, write]}}}}\n"
ROWS = "/api/v1/data/shop/items"


@dataclass
class Person:
    """Writes rows at each place that the engine may have, with the token of one sign-in.

    kept: the rows that were acknowledged; unanswered: those whose connection broke, which may be there; longest_s: without one.
    """

    kube: Kube
    platform: Platform
    host: str
    token: str = ""
    kept: list[str] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    longest_s: float = 0.0

    def request(self, method: str, url: str, accept: str = "*/*", **options: Any) -> httpx.Response:
        headers = {"Host": self.host, "Accept": accept} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        with httpx.Client(proxy=self.platform.proxy, trust_env=False, timeout=30) as client:
            return client.request(method, url, headers=headers, **options)

    def sign_in(self, url: str) -> None:
        form = {"username": "alice", "password": "correct horse"}
        self.token = self.request("POST", f"{url}/api/v1/auth/token", data=form).json()["access_token"]

    def rows(self, url: str) -> list[str]:
        lines = self.request("GET", f"{url}{ROWS}", "application/x-ndjson").text.splitlines()
        return sorted(json.loads(line)["name"] for line in lines)

    def write(self, urls: list[str], ends: Event) -> None:
        """Write at the place that takes it, again and again."""
        last = time.monotonic()
        while not ends.is_set():
            name = f"row-{len(self.kept)}-{time.monotonic_ns()}"
            took = [url for url in urls if self._post(url, name) == 201]
            assert len(took) <= 1, took
            if took:
                self.longest_s = max(self.longest_s, time.monotonic() - last)
                last = time.monotonic()
                self.kept.append(name)

    def _post(self, url: str, name: str) -> int:
        try:
            status = self.request("POST", f"{url}{ROWS}", json={"name": name}).status_code
        except httpx.HTTPError:
            self.unanswered.add(name)
            return 0
        if status == httpx.codes.BAD_GATEWAY:  # the proxy lost the engine, perhaps after its commit
            self.unanswered.add(name)
        self.refused.add(status)
        return status


@pytest.fixture(scope="module")
def played(
    own: Cluster, release: str, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Platform, Node]]:
    folder = tmp_path_factory.mktemp("moves")
    with node(own, folder / "node", real=True) as pods:
        started = Platform(kube, kubeconfigs(own, kubectl, folder), folder, pods.proxy)
        with started.api():
            yield started, pods


@pytest.fixture(scope="module")
def platform(played: tuple[Platform, Node]) -> Platform:
    return played[0]


@pytest.fixture
def person(platform: Platform, kube: Kube, home: str, tmp_path: Path) -> Iterator[Person]:
    with platform.leader() as operator:
        kube.apply(object_("Region", "moves", engine=POOLS, **PUBLISHED))
        kube.ready("region/moves", within=300)
        sha256 = push(platform, kube, tmp_path, MANIFEST)
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "alice", "namespace": home, "labels": {"tenantry.dev/credential": "identity"}},
            "stringData": {"password": "correct horse"},
        }
        roles = [{"app": "shop", "role": "editor"}]
        credential = {"username": "alice", "passwordSecretRef": {"name": "alice", "key": "password"}}
        kube.apply(
            object_("Package", "moving-shop", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256),
            secret,
            declared(home, placement="Dedicated"),
            object_("App", "dev.shop", home, environment="dev", app="shop", version="1.0.0"),
            object_("Identity", "alice", home, environment="dev", roles=roles, **credential),
        )
        for what in ("environment/dev", "app/dev.shop", "identity/alice"):
            kube.ready(what, home, within=300)
    yield Person(kube, platform, f"dev--{home.removeprefix('tenant-')}.eu.example.com")
    with platform.leader() as operator:
        kube("delete", "environments", "--all", "-n", home, "--wait=false")
        until(lambda: not kube.names("environment", home), "no environment is left", explained=operator.told)
        kube("delete", "region", "moves", "--wait=false")
        until(lambda: "moves" not in kube.names("region"), "the region is gone", explained=operator.told)
        kube("delete", "package", "moving-shop", "-n", NAMESPACE, "--wait=false")


def declared(home: str, **engine: Any) -> dict[str, Any]:
    return object_("Environment", "dev", home, region="moves", deletionPolicy="Delete", engine=engine)


def place(kube: Kube, home: str) -> str:
    """The id of its pool once it has arrived, `""` for a pod of its own; `"moves"` before."""
    status = kube.get("environment", "dev", home)["status"]
    return "moves" if "move" in status else str((status.get("engine") or {}).get("pool", ""))


OWN = "own"
"""The engine's own pod, among the names of pools."""


def at(name: str) -> dict[str, str]:
    return {"pool": name} if name != OWN else {"placement": "Dedicated"}


def arrive(kube: Kube, home: str, pool: str, operator: Operator) -> None:
    until(lambda: place(kube, home) == pool, f"it is in {pool}", 120, operator.told)
    kube.ready("environment/dev", home, within=120)


def runs(pods: Node, space: str) -> bool:
    pod = pods.pod(space)
    return pod is not None and pod.process is not None


def end_pod(kube: Kube, pods: Node, space: str) -> None:
    """Kill the process of a pod. Another pod follows, with the same volume."""
    killed = pods.pod(space)
    assert killed is not None
    assert killed.process is not None
    os.kill(killed.process.pid, signal.SIGKILL)
    kube("delete", "pod", "engine-0", "-n", space, "--force", "--wait=false")


def test_rows_and_tokens_survive_moves_whatever_is_killed(person: Person, home: str, played: tuple[Platform, Node]) -> None:
    kube, platform = person.kube, person.platform
    pools = {each["name"]: each["id"] for each in kube.get("region", "moves")["status"]["pools"]}
    (own,) = engines(kube, home)
    spaces = {OWN: own, **{name: f"env-{id_}" for name, id_ in pools.items()}}
    urls = [f"http://engine.{space}.svc:8080" for space in spaces.values()]
    person.sign_in(urls[0])
    before, ends = kube.get("environment", "dev", home)["status"]["url"], Event()
    writing = Thread(target=person.write, args=(urls, ends))
    writing.start()
    try:
        until(lambda: len(person.kept) > 3, "rows are written")
        with platform.leader() as operator:
            kube.apply(declared(home, pool="small"))
            arrive(kube, home, pools["small"], operator)
        pause_s = person.longest_s
        ways = (("other", "operator"), ("small", "source"), (OWN, "operator"), ("other", "both"), (OWN, "target"))
        for (name, victim), origin in zip(ways, ("small", "other", "small", OWN, "other"), strict=True):
            with platform.leader() as operator:
                kube.apply(declared(home, **at(name)))
                until(lambda: condition(kube.get("environment", "dev", home))["reason"] == "Moving", "moves", 120, operator.told)
                if victim == "target":
                    until(lambda: runs(played[1], own), "its new pod runs", 120, operator.told)
                if victim != "operator":
                    end_pod(kube, played[1], spaces[name if victim == "target" else origin])
                if victim in ("operator", "both"):
                    operator.end(signal.SIGKILL)
            with platform.leader() as operator:
                arrive(kube, home, pools.get(name, ""), operator)
    finally:
        ends.set()
        writing.join(60)
    rows = person.rows(f"http://engine.{own}.svc:8080")
    assert len(rows) == len(set(rows))
    assert set(person.kept) <= set(rows) <= {*person.kept, *person.unanswered}
    assert kube.get("environment", "dev", home)["status"]["url"] == before
    assert operations(kube, home, "dev").count("MOVE_ENVIRONMENT") == 6
    print(f"longest pause of the first move: {pause_s:.2f} s, {len(person.kept)} rows, answers {sorted(person.refused)}")
