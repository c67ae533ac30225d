"""An API server of its own with the chart installed, and the platform's processes with their release's rights.

Without controllers namespaces, claims and workloads are records that nobody works off. A StatefulSet is then played by one
write of its status, so that an engine looks ready as soon as it is declared; no pod and no engine runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import time
import urllib.request
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.model.verdicts import Halt, Transient
from tests.cluster.binaries import find
from tests.cluster.charting import CHART, NAMESPACE, run
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.releases import kubeconfig_of
from tests.cluster.running import Kube, Platform
from tests.support.forked_commands import start_program

CLIENTS = 32
QUIET_S, STEP_S = 3.0, 0.1
BUSY = 0.05
"""Of one core; less is next to nothing."""
ENGINES = "app.kubernetes.io/name=tenantry-engine"
_REQUESTS = re.compile(rb"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(rb'(\w+)="([^"]*)"')
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
_BESIDE = frozenset({"leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"})
Object = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """admin: the kubeconfig of who declares; operator: that of the operator's account, for whoever does its work."""

    plane: ControlPlane
    platform: Platform
    admin: Path
    operator: Path


@contextmanager
def place(folder: Path, *, controllers: bool = False) -> Iterator[Place]:
    """Until the end of the block."""
    folder.mkdir(parents=True)
    with control_plane(find(), folder / "plane", bare=not controllers) as own:
        assert own.control_plane is not None

        def kubectl(*arguments: str | Path, given: Any = None) -> subprocess.CompletedProcess[str]:
            command = [str(own.kubectl), "--kubeconfig", str(own.kubeconfig), *map(str, arguments)]
            text = None if given is None else json.dumps(given)
            return subprocess.run(command, capture_output=True, text=True, input=text, timeout=60, check=False)

        chart = (
            "helm",
            "install",
            "tenantry",
            CHART,
            "--namespace",
            NAMESPACE,
            "--create-namespace",
            "--kubeconfig",
            own.kubeconfig,
        )
        installed = run(*chart)
        assert installed.returncode == 0, installed.stderr
        kube = Kube(kubectl)
        kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        accounts = {account: kubeconfig_of(account, own, kubectl, folder) for account in ("operator", "api")}
        yield Place(own.control_plane, Platform(kube, accounts, folder, "", start_program), own.kubeconfig, accounts["operator"])


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(from_kubeconfig(kubeconfig))
    try:
        yield client
    finally:
        await client.close()


Counts = Counter[tuple[str, str]]


async def requests_of(plane: ControlPlane) -> Counts:
    """Counts of the API server's answers so far, by verb and resource with its subresource."""
    counted: Counts = Counter()
    for labels, value in _REQUESTS.findall(await asyncio.to_thread(_metrics, plane)):
        told = {name.decode(): text.decode() for name, text in _LABEL.findall(labels)}
        if told["resource"] and told["resource"] not in _BESIDE:
            resource = "/".join(filter(None, (told["resource"], told["subresource"])))
            counted[told["verb"], resource] += int(float(value))
    return counted


def _metrics(plane: ControlPlane) -> bytes:
    request = urllib.request.Request(f"{plane.server}/metrics", headers={"Authorization": f"Bearer {plane.token}"})
    context = ssl.create_default_context(cafile=f"{plane.folder}/certificates/apiserver.crt")
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return bytes(answer.read())


def written(before: Counts, after: Counts) -> Counts:
    """The writes between."""
    return Counter({what: count for what, count in (after - before).items() if what[0] in WRITES})


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def quiet(pid: int) -> float:
    """Waits until a process has had next to nothing to do for QUIET_S. When that began, by time.perf_counter()."""
    seen = deque([(time.perf_counter(), cpu_of(pid))])
    while True:
        await asyncio.sleep(STEP_S)
        now, cpu = time.perf_counter(), cpu_of(pid)
        seen.append((now, cpu))
        while now - seen[0][0] > QUIET_S + STEP_S:
            seen.popleft()
        if now - seen[0][0] >= QUIET_S and cpu - seen[0][1] <= BUSY * QUIET_S:
            return seen[0][0]


def memory_of(pid: int, what: str = "VmRSS") -> int:
    """Bytes that a process has in memory now (VmRSS), or had at most (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024


def object_(kind: str, name: str, namespace: str = "", **spec: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


async def play(client: Client) -> None:
    """Makes every StatefulSet look as if its pod ran, until it is cancelled."""
    path = path_of("apps/v1", "StatefulSet")
    query = {"watch": "1", "allowWatchBookmarks": "true", "labelSelector": ENGINES}
    async with asyncio.TaskGroup() as starting:
        while True:
            # Without a version a watch begins with all that is there: one that a quiet time has ended goes on.
            try:
                async for change in client.stream(path, query):
                    if change["type"] == "ADDED" and not change["object"].get("status", {}).get("readyReplicas"):
                        starting.create_task(started(client, change["object"]))
            except Halt as halt:
                if not isinstance(halt.verdict, Transient):
                    raise


async def started(client: Client, workload: Object) -> None:
    """One write: the StatefulSet's pod is ready."""
    metadata = workload["metadata"]
    path = path_of("apps/v1", "StatefulSet", metadata["namespace"], metadata["name"]) + "/status"
    one = dict.fromkeys(("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"), 1)
    status = {**one, "observedGeneration": metadata["generation"], "updateRevision": "engine-1", "currentRevision": "engine-1"}
    await client.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)
