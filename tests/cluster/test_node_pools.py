"""The chart as it is shipped, on a node of its own: the README's tour comes up in a pool, and what a pool costs there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.charting import CHART, NAMESPACE
from tests.cluster.running import Kube, condition, object_, until
from tests.scenario.cli import COMMAND
from tests.support.node import READY_S, ROOT, Node, told
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.node]
IMAGE = "knode.local/tenantry"
OTHERS = "image.tag=node,image.pullPolicy=Never,blobs.volume.size=1Gi"
"""Values that a node without a registry and with small volumes needs."""
TRACKS = len((ROOT / "examples/packages/music-store-1.0.0/seed/Track.ndjson").read_text().splitlines())
MANY, APART = 100, 3
HOME = "tenant-crowd"
SETTLES_S = 20.0
"""The kubelet measures memory every ten seconds."""


class PoolNode(Node):
    """A node beside those of the other tests."""

    def shell(self, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run commands of the README, with its tools on the path."""
        programs, kubeconfig = self.folder / "bin", self.command("kubectl")[2]
        path = f"{programs}:{Path(COMMAND[0]).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"],
            cwd=ROOT,
            env=self._environment | {"PATH": path, "KUBECONFIG": kubeconfig, "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )


@pytest.fixture(scope="module")
def node() -> Iterator[PoolNode]:
    own = PoolNode("tenantry-pools")
    own.require_programs()
    with own.running(12, "10Gi"):
        yield own


def tour() -> str:
    """The commands of the README's part on Kubernetes, for this node: its image, and a free port."""
    (part,) = re.findall(r"^## On Kubernetes\n(.*?)^## ", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    script = "\n".join(re.findall(r"^```sh example\n(.*?)^```", part, re.MULTILINE | re.DOTALL))
    assert script.count("image.repository=REPOSITORY") == 1
    port = str(free_port())
    return (
        script.replace("image.repository=REPOSITORY", f"image.repository={IMAGE},{OTHERS}")
        .replace("8080 &", f"{port}:8080 > /dev/null &")
        .replace("127.0.0.1:8080", f"127.0.0.1:{port}")
        .replace("PASSWORD=", f"until curl -fs -o /dev/null http://127.0.0.1:{port}/healthz; do sleep 0.2; done\nPASSWORD=")
    )


def pool_namespaces(kube: Kube) -> list[str]:
    return [f"env-{pool['id']}" for region in kube.get("regions") for pool in region["status"].get("pools", [])]


def memory_mib(kube: Kube) -> dict[str, float]:
    """The working set of each engine's pod, by namespace, as the kubelet measures it."""
    node = kube.names("nodes")[0]
    pods: list[dict[str, Any]] = json.loads(kube("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"))["pods"]
    found = {pod["podRef"]["namespace"]: pod["memory"].get("workingSetBytes", 0) / 2**20 for pod in pods if "memory" in pod}
    return {namespace: size for namespace, size in found.items() if namespace.startswith("env-")}


def settled_memory_mib(kube: Kube, namespaces: list[str]) -> float:
    """Of all of them, measured after they have done nothing for a while."""
    since = time.monotonic()
    until(lambda: time.monotonic() - since >= SETTLES_S and set(namespaces) <= set(memory_mib(kube)), "measured", READY_S)
    found = memory_mib(kube)
    return sum(found[each] for each in namespaces)


def test_the_tour_of_the_readme_comes_up_in_a_pool(node: PoolNode, tmp_path: Path) -> None:
    kube = Kube(node.kubectl)
    done = node.shell(tour(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr + told(kube)
    until(lambda: all(condition(each)["status"] == "True" for each in kube.get("environments")), "ready", READY_S)
    environments = kube.get("environments")
    pools = pool_namespaces(kube)
    placed = {each["metadata"]["namespace"] + "/" + each["metadata"]["name"]: each for each in environments}
    small = {name: each for name, each in placed.items() if each["spec"].get("engine", {}).get("size", "small") == "small"}
    assert small, "the example has small environments"
    assert {f"env-{each['status']['engine'].get('pool')}" for each in small.values()} <= set(pools)
    used = {f"env-{each['status']['engine']['pool']}" for each in small.values()}
    apart = [name for name in placed if name not in small]
    engines = [name for name in kube.names("namespaces") if name.startswith("env-")]
    assert len(engines) == len(pools) + len(apart), (engines, pools, apart)
    for namespace in used:
        assert kube.names("pods", namespace) == ["engine-0"]


def test_a_killed_pool_comes_back_with_all_its_rows(node: PoolNode) -> None:
    kube = Kube(node.kubectl)
    (namespace, *_) = {
        f"env-{each['status']['engine']['pool']}" for each in kube.get("environments") if each["status"]["engine"].get("pool")
    }
    before = _tracks(kube, namespace)
    assert before and set(before.values()) <= {TRACKS}
    uid = kube.get("pod", "engine-0", namespace)["metadata"]["uid"]
    kube("delete", "pod", "engine-0", "-n", namespace, "--grace-period=0", "--force")

    def back() -> bool:
        pod = kube.run("get", "pod", "engine-0", "-n", namespace, "-o", "json").stdout
        return bool(pod) and json.loads(pod)["metadata"]["uid"] != uid and condition(json.loads(pod))["status"] == "True"

    until(back, "back", READY_S, lambda: told(kube))
    assert _tracks(kube, namespace) == before
    until(lambda: all(condition(each)["status"] == "True" for each in kube.get("environments")), "ready", READY_S)


def _tracks(kube: Kube, namespace: str) -> dict[str, int]:
    """The number of tracks of each engine in the pool, by its id."""
    found = kube("exec", "-n", namespace, "engine-0", "--", "python", "-c", COUNT)
    counted: dict[str, int] = json.loads(found)
    return counted


COUNT = """
import json, pathlib, sqlite3
found = {}
for file in sorted(pathlib.Path("/data").rglob("engine.db")):
    rows = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    if rows.execute("select 1 from sqlite_master where name = 'music_store__Track'").fetchone():
        found[file.parent.name] = rows.execute('select count(*) from "music_store__Track"').fetchone()[0]
print(json.dumps(found))
"""


def test_a_hundred_environments_in_a_pool_take_less_memory_than_three_apart(node: PoolNode) -> None:
    kube = Kube(node.kubectl)
    kube.apply(object_("Region", "crowded"), object_("Tenant", "crowd"))
    until(lambda: condition(kube.get("tenant", "crowd"))["status"] == "True", "a tenant", READY_S, lambda: told(kube))
    kube.apply(*(object_("Environment", f"e{number}", HOME, region="crowded") for number in range(MANY)))
    alone = {"placement": "Dedicated"}
    kube.apply(*(object_("Environment", f"d{number}", HOME, region="crowded", engine=alone) for number in range(APART)))

    def ready() -> bool:
        found = kube.get("environments", namespace=HOME)
        return len(found) == MANY + APART and all(condition(each)["status"] == "True" for each in found)

    until(ready, "ready", 2 * READY_S, lambda: told(kube))
    (pool,) = kube.get("region", "crowded")["status"]["pools"]
    apart = [kube.get("environment", f"d{number}", HOME)["status"]["externalId"].rpartition("/")[2] for number in range(APART)]
    together, dedicated = settled_memory_mib(kube, [f"env-{pool['id']}"]), settled_memory_mib(kube, apart)
    print(f"{MANY} environments in a pool: {together:.0f} MiB; {APART} in pods of their own: {dedicated:.0f} MiB")
    assert together < dedicated
    kube("delete", "tenant", "crowd", "--wait=false")
    until(lambda: "crowd" not in kube.names("tenants"), "gone", READY_S, lambda: told(kube))


def test_the_next_upgrade_restarts_nothing(node: PoolNode) -> None:
    kube = Kube(node.kubectl)

    def pods() -> dict[str, str]:
        found = json.loads(kube("get", "pods", "-A", "-o", "json"))["items"]
        return {
            pod["metadata"]["namespace"]: pod["metadata"]["uid"]
            for pod in found
            if pod["metadata"]["namespace"].startswith("env-")
        }

    before = pods()
    values = [argument for each in (f"image.repository={IMAGE}", *OTHERS.split(",")) for argument in ("--set", each)]
    upgraded = node.helm("upgrade", "tenantry", CHART, *values, "--set", "operator.replicas=1", "--wait", "--timeout=3m")
    assert upgraded.returncode == 0, upgraded.stderr + told(kube)
    kube("wait", "--for=condition=Available", "deployment", "--all", "-n", NAMESPACE, "--timeout=60s")
    until(lambda: all(condition(each)["status"] == "True" for each in kube.get("environments")), "ready", READY_S)
    assert pods() == before
