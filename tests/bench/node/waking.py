"""H4, P21: a request to an engine of its own pod that sleeps, on a real node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

import pytest

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.state import is_ready
from tests.bench.row import Row, Scale, Times, Took, row, told
from tests.cluster.running import Kube
from tests.support.built_programs import MissingProgram
from tests.support.node import VALUES, Node
from tests.support.waking import Sleeper, Sleepers

ENGINES = tuple(f"e{number}" for number in range(4))
AT_ONCE = 50
WAKES = 20
"""In all 1,000 first requests."""
LIMIT_S = 5.0
WAKE_GATE = 1.3
READY_S = 60.0
SPACE = "default"
SERVE = "import http.server as h; h.ThreadingHTTPServer(('', 8080), h.SimpleHTTPRequestHandler).serve_forever()"
BARE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "bare", "namespace": SPACE},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "bare",
                "image": f"{VALUES['image']['repository']}:{VALUES['image']['tag']}",
                "imagePullPolicy": "Never",
                "command": ["python", "-c", SERVE],
                "startupProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 2, "failureThreshold": 60},
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 3},
            }
        ],
    },
}
"""Of the same image, with the probes of an engine and a server of the standard library."""


def measure(scale: Scale) -> Sequence[Row]:
    """One request at a time beside a bare pod, then many at once. Raises MissingProgram where no node can be started."""
    node = Node("tenantry-bench")
    try:
        node.require_programs()
    except pytest.skip.Exception as missing:
        raise MissingProgram(str(missing)) from missing
    with node.running(len(ENGINES) + 2, "2Gi"):
        sleepers = Sleepers(node, ENGINES)
        sleepers.install()
        return _beside_a_bare_pod(node, sleepers, scale.repetitions), _at_once(sleepers, scale.of(WAKES))


def _beside_a_bare_pod(node: Node, sleepers: Sleepers, repetitions: int) -> Row:
    ours, theirs = list[Took](), list[Took]()
    asleep = list[Sleeper]()
    for turn in range(repetitions + 1):  # the first one warms up
        if not asleep:
            sleepers.wake()
            asleep = sleepers.sleep()
        bare = _bare_pod(node)
        (request,) = sleepers.first_requests(asleep.pop(), 1)
        if turn:
            ours.append(Took(request))
            theirs.append(Took(bare))
    work = "first request to an engine of its own pod that sleeps, until its answer"
    return row("P21", work, "a bare pod of the same image until it is Ready", Times(ours, theirs), "lower", WAKE_GATE)


def _at_once(sleepers: Sleepers, wakes: int) -> Row:
    took = list[float]()
    while len(took) < wakes * AT_ONCE:
        sleepers.wake()
        for each in sleepers.sleep()[: wakes - len(took) // AT_ONCE]:
            took += sleepers.first_requests(each, AT_ONCE)
    p95, longest = quantiles(took, n=20)[-1], max(took)
    work = f"first requests to engines that sleep, {AT_ONCE} at once, p95; none fails, and one of them wakes the engine"
    figures = (told(p95), told(LIMIT_S))
    beside = {"requests": str(len(took)), "longest": told(longest)}
    return Row("H4", work, told(LIMIT_S), p95 / LIMIT_S, (p95 / LIMIT_S, p95 / LIMIT_S), "lower", 1.0, figures, beside)


def _bare_pod(node: Node) -> float:
    """Return the seconds from the creation of a pod until it is Ready. It is gone then."""
    took = asyncio.run(_ready(Path(node.command("kubectl")[2])))
    kube = Kube(node.kubectl)
    kube("delete", "pod", "bare", "-n", SPACE, "--wait=true")
    return took


async def _ready(kubeconfig: Path) -> float:
    client = Client(from_kubeconfig(kubeconfig))
    pods = path_of("v1", "Pod", SPACE)
    try:
        began = time.perf_counter()
        made = await client.request("POST", pods, body=BARE)
        query = {"watch": "true", "resourceVersion": made["metadata"]["resourceVersion"], "fieldSelector": "metadata.name=bare"}
        async with asyncio.timeout(READY_S):
            async for change in client.stream(pods, query):
                if is_ready(change["object"]):
                    return time.perf_counter() - began
        raise TimeoutError("the watch ended")
    finally:
        await client.close()
