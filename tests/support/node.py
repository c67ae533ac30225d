"""A Kubernetes node with the chart installed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.running import Kube
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
TOOLS = ROOT.parent / "shared" / "tools" / "cluster"
"""Starts a node without docker; its README says what it needs."""
READY_S = 180.0
"""For what several pods must do on two cores."""
VALUES: dict[str, Any] = {
    "image": {"repository": "knode.local/tenantry", "tag": "node", "pullPolicy": "Never"},
    "blobs": {"volume": {"size": "1Gi"}},
    "defaultPool": False,
}
"""Each engine has a pod of its own, which these tests look into."""


class Node:
    """The tools of a node, and its kubectl and helm."""

    def __init__(self, name: str = "tenantry-node") -> None:
        self.name = name
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = Path(os.environ.get("KNODE_DIR") or caches / "knode")
        kept = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        self._environment = kept | {"KNODE_NAME": name, "KNODE_PORT": str(free_port())}

    def tool(self, name: str, *arguments: str | Path) -> None:
        """Runs one of its scripts."""
        done = self._run(TOOLS / name, *arguments, within=600)
        assert done.returncode == 0, f"{name}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    def output(self, name: str, *arguments: str) -> str:
        """Return what one of its scripts writes to standard output."""
        done = self._run(TOOLS / name, *arguments, within=600)
        assert done.returncode == 0, f"{name}: {done.stderr[-2000:]}"
        return done.stdout

    def kubectl(self, *arguments: str | Path, given: Any = None) -> subprocess.CompletedProcess[str]:
        return self._run(*self.command("kubectl"), *arguments, given=None if given is None else json.dumps(given))

    def helm(self, *arguments: str | Path, given: Any = None) -> subprocess.CompletedProcess[str]:
        command = (*self.command("helm"), *arguments, "--namespace", NAMESPACE)
        return self._run(*command, given=None if given is None else json.dumps(given), within=300)

    def command(self, program: str) -> tuple[str, str, str]:
        return str(self.folder / "bin" / program), "--kubeconfig", str(self.folder / self.name / "kubeconfig")

    def require_programs(self) -> None:
        """Skip the test unless the programs of a node were built."""
        if not TOOLS.exists() or not (self.folder / "bin" / "kubelet").exists():
            pytest.skip(f"there is no node to start with {TOOLS}: run tests/cluster/test_node.py first")

    @contextmanager
    def running(self, volumes: int, size: str, **others: Path) -> Iterator[None]:
        """Run until the end of the block, with volumes and the image of this tree. others: trees of more images, by tag."""
        images = {"node": ROOT, **others}
        for tag, tree in images.items():
            self.tool("pyimage.sh", f"tenantry:{tag}", "-r", tree, "--", "tenantry")
        try:
            self.tool("up.sh")
            self.tool("volumes.sh", str(volumes), size)
            yield
        finally:
            self.tool("down.sh")
            for tag in images:
                (self.folder / "img" / f"tenantry-{tag}.tar").unlink(missing_ok=True)

    def _run(self, *command: str | Path, given: str | None = None, within: float = 90) -> subprocess.CompletedProcess[str]:
        full = list(map(str, command))
        return subprocess.run(
            full, input=given, env=self._environment, capture_output=True, text=True, timeout=within, check=False
        )


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node that runs, with volumes and the image of this tree. What cannot be is said, and skipped."""
    if not TOOLS.exists():
        pytest.skip(f"there is no {TOOLS} to start a node with")
    if os.geteuid() != 0:
        pytest.skip("a node needs root")
    own = Node()
    if not (own.folder / "bin" / "kubelet").exists():
        for step in ("prereq.sh", "build.sh", "images.sh"):
            own.tool(step)
    with own.running(12, "2Gi"):
        yield own


@pytest.fixture(scope="module")
def kube(node: Node) -> Kube:
    return Kube(node.kubectl)


def told(kube: Kube) -> str:
    """The objects that a person would look at."""
    return kube.run("get", "tenantry", "-A").stdout + kube.run("get", "pods", "-A").stdout


def engine_of(kube: Kube, name: str, namespace: str) -> str:
    return str(kube.get("environment", name, namespace)["status"]["externalId"].rpartition("/")[2])


@contextmanager
def forwarded(node: Node) -> Iterator[str]:
    """The api's URL, on this machine."""
    port = free_port()
    command = (*node.command("kubectl"), "port-forward", "-n", NAMESPACE, "service/tenantry-api", f"{port}:8080")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            assert "Forwarding" in process.stdout.readline()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
