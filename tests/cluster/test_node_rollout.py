"""The pauses of a real node's engines while the platform is upgraded, by a probe of each every 0.3 s."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster.charting import CHART
from tests.cluster.running import Kube, condition, object_, until
from tests.support.node import READY_S, TOOLS, VALUES, Node, engine_of, told

pytestmark = [pytest.mark.slow, pytest.mark.node]
HOME = "tenant-waves"
PLAIN, PROTECTED = tuple(f"e{number}" for number in range(5)), "vault"
EVERY = (*PLAIN, PROTECTED)
PROBE = """
while true; do
  for ip in "$@"; do
    ( code=$(curl -s -o /dev/null -m 2 -w '%{http_code}' "http://$ip:8080/readyz"); echo "$(date +%s.%N) $ip $code" ) &
  done
  sleep 0.3
done
"""


class OwnNode(Node):
    """A node beside the one of test_node."""

    def probing(self, file: Path, *addresses: str) -> subprocess.Popen[bytes]:
        """Asks each engine again and again, from within the node."""
        command = [str(TOOLS / "enter.sh"), "bash", "-c", PROBE, "probe", *addresses]
        with file.open("wb") as answers:
            return subprocess.Popen(command, env=self._environment, stdout=answers, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def node() -> Iterator[OwnNode]:
    own = OwnNode("tenantry-rollout")
    own.require_programs()
    with own.running(8, "2Gi"):
        tag = ("ctr", "-n", "k8s.io", "images", "tag", "knode.local/tenantry:node", "knode.local/tenantry:next")
        own.tool("enter.sh", *tag)
        yield own


def pauses(file: Path) -> dict[str, float]:
    """By address: the longest time from an answer of 200 to the next one."""
    found: dict[str, list[tuple[float, str]]] = {}
    for line in file.read_text().splitlines():
        at, address, code = line.split()
        found.setdefault(address, []).append((float(at), code))
    good = {address: sorted(at for at, code in answers if code == "200") for address, answers in found.items()}
    return {address: max(after - before for before, after in pairwise(at)) for address, at in good.items()}


def test_an_upgrade_pauses_each_engine_once_and_two_at_a_time(node: OwnNode, tmp_path: Path) -> None:
    kube = Kube(node.kubectl)
    installed = node.helm("install", "tenantry", CHART, "--create-namespace", "--wait", "--timeout=4m", "-f", "-", given=VALUES)
    assert installed.returncode == 0, installed.stderr + told(kube)
    kube.apply(object_("Region", "home"), object_("Tenant", "waves", displayName="Waves"))
    kube.ready("tenant/waves", within=120)
    plain = (object_("Environment", each, HOME, region="home") for each in PLAIN)
    kube.apply(*plain, object_("Environment", PROTECTED, HOME, region="home", deletionProtection=True))
    for each in EVERY:
        kube.ready(f"tenv/{each}", HOME, within=240)
    ip = {each: kube.get("service", "engine", engine_of(kube, each, HOME))["spec"]["clusterIP"] for each in EVERY}
    answers = tmp_path / "answers"
    probe = node.probing(answers, *ip.values())
    try:
        until(lambda: answers.stat().st_size, "an answer:", 30)
        next_ = {**VALUES, "image": {**VALUES["image"], "tag": "next"}}
        began = time.monotonic()
        upgraded = node.helm("upgrade", "tenantry", CHART, "--timeout=4m", "-f", "-", given=next_)
        assert upgraded.returncode == 0, upgraded.stderr
        most = 0
        while not all(_on("next", kube, each) for each in EVERY):
            assert time.monotonic() < began + 3 * READY_S, told(kube)
            ready = [each for each in kube.get("statefulsets") if each["status"].get("readyReplicas")]
            most = max(most, len(EVERY) - len(ready))
        whole = time.monotonic() - began
    finally:
        probe.terminate()
        probe.wait()
    longest = {name: pauses(answers)[address] for name, address in ip.items()}
    sys.stdout.write(f"\npauses in s: {longest}; whole: {whole:.0f} s; most at once: {most}\n")
    assert most <= 2
    assert max(longest.values()) < 60


def _on(tag: str, kube: Kube, name: str) -> bool:
    found = kube.get("tenv", name, HOME)
    engine = found["status"]["engine"]
    return (engine.get("version"), engine.get("next", ""), condition(found)["status"]) == (tag, "", "True")
