"""Engines of a real node that sleep, and the requests that wake them, by kube-proxy and the slices that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from tests.cluster.charting import CHART, NAMESPACE
from tests.cluster.running import Kube, condition, object_, operations, until
from tests.support.node import READY_S, VALUES, Node, engine_of, told

HOME = "tenant-sleepy"
ALWAYS: dict[str, Any] = {"schedule": [{"start": "00:00", "end": "00:00"}], "wake": "OnRequest"}
"""Sleep for all of each day, but for who asks."""
_ASK = """
for number in $(seq "$1"); do
  curl -s -o /dev/null -m 90 -H "Host: $2" -w '%{http_code} %{time_total}\\n' "http://$3:8080/readyz" &
done
wait
"""


class Sleeper(NamedTuple):
    """An engine without a pod. space: its namespace; address: that of its Service; woken: how often it was woken before."""

    name: str
    space: str
    address: str
    woken: int


class Sleepers:
    """Environments of a node whose engines sleep unless they are asked."""

    def __init__(self, node: Node, names: Sequence[str]) -> None:
        self._node = node
        self._kube = Kube(node.kubectl)
        self._names = names

    def install(self) -> None:
        """Install the chart, and make the environments Ready, awake."""
        given = ("--create-namespace", "--wait", "--timeout=4m", "-f", "-")
        installed = self._node.helm("install", "tenantry", CHART, *given, given=VALUES)
        assert installed.returncode == 0, installed.stderr + told(self._kube)
        self._kube.apply(object_("Region", "home"), object_("Tenant", "sleepy", displayName="Sleepy"))
        self._kube.ready("tenant/sleepy", within=120)
        self.wake()

    def wake(self) -> None:
        """Declare that none sleeps."""
        self._kube.apply(*(object_("Environment", each, HOME, region="home") for each in self._names))
        for each in self._names:
            self._kube.ready(f"tenv/{each}", HOME, within=240)
            until(partial(self._is_awake, each), f"{each} is awake", READY_S, lambda: told(self._kube))

    def sleep(self) -> list[Sleeper]:
        """Declare that all sleep. Return once no pod is left."""
        self._kube.apply(*(object_("Environment", each, HOME, region="home", hibernation=ALWAYS) for each in self._names))
        return [self._asleep(each) for each in self._names]

    def first_requests(self, sleeper: Sleeper, times: int) -> list[float]:
        """Wake an engine by requests at once, from within the node, as an ingress controller does. Return the seconds of each.

        None fails, and the engine is woken once.
        """
        kube, space, name = self._kube, sleeper.space, sleeper.name
        answers = self._ask(sleeper, times)
        said = kube.run("logs", "-n", NAMESPACE, "deploy/tenantry-api").stdout
        assert [code for code, _ in answers] == ["200"] * times, said
        until(lambda: "engine-sleeps" not in kube.names("endpointslices", space), "it is reached by itself", READY_S)
        assert {code for code, _ in self._ask(sleeper, 5)} == {"200"}
        assert operations(kube, HOME, name).count("WAKE_ENVIRONMENT") == sleeper.woken + 1
        return [seconds for _, seconds in answers]

    def _asleep(self, name: str) -> Sleeper:
        kube, space = self._kube, engine_of(self._kube, name, HOME)
        until(lambda: self._reason(name) == "Sleeping", f"{name} sleeps", READY_S, lambda: told(kube))
        until(lambda: kube.names("pods", space) == [], "its pod is gone", READY_S, lambda: told(kube))
        address = kube.get("service", "engine", space)["spec"]["clusterIP"]
        return Sleeper(name, space, address, operations(kube, HOME, name).count("WAKE_ENVIRONMENT"))

    def _ask(self, sleeper: Sleeper, times: int) -> list[tuple[str, float]]:
        host = f"engine.{sleeper.space}.svc:8080"
        answers = self._node.output("enter.sh", "bash", "-c", _ASK, "ask", str(times), host, sleeper.address)
        return [(code, float(seconds)) for code, seconds in (line.split() for line in answers.splitlines())]

    def _is_awake(self, name: str) -> bool:
        return self._reason(name) != "Sleeping"

    def _reason(self, name: str) -> str:
        return str(condition(self._kube.get("tenv", name, HOME))["reason"])
