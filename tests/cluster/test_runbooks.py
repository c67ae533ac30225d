"""The page for the person on call, on a real API server with the chart: kubectl's commands, and the bundle of `doctor`."""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from pathlib import Path

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.running import Kube, Platform, engines, object_
from tests.scenario.cli import tenantry
from tests.support.generated_requests import shapes
from tests.support.runbooks import commands_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
NO_NODE = re.compile(
    r"error: timed out waiting|Metrics API not available|previous terminated container|the server could not find"
)
"""Answers about what runs in pods: this cluster has no node. `make node` has one."""
NEEDS_NODE = frozenset({"logs", "top"})


def test_each_command_of_the_runbooks_runs_and_each_selector_finds_its_pods(platform: Platform, kube: Kube, home: str) -> None:
    with platform.leader():
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete"))
        kube.ready("environment/dev", home)
        (engine,) = engines(kube, home)
        deployments = kube.get("deployments", namespace=NAMESPACE)
        labelled = [each["spec"]["template"]["metadata"]["labels"] for each in deployments]
        labelled.append(kube.get("statefulset", "engine", engine)["spec"]["template"]["metadata"]["labels"])
        found = {command for _, command in commands_of("kubectl")}
        for command in sorted(found):
            words = shlex.split(command.replace("NAMESPACE", engine))[1:]
            done = kube.run(*words)
            if done.returncode and NEEDS_NODE & set(words):
                assert NO_NODE.search(done.stderr), f"{command}: {done.stderr}"
            else:
                assert done.returncode == 0, f"{command}: {done.stderr}"
            for selector in re.findall(r"--selector (\S+)", command):
                name, _, value = selector.partition("=")
                assert any(labels.get(name) == value for labels in labelled), (command, json.dumps(labelled))
        assert len(found) >= 12


def test_the_bundle_of_a_cluster_has_states_and_no_secret(
    platform: Platform, kube: Kube, own: Cluster, home: str, tmp_path: Path
) -> None:
    canary, shown = "canary-of-a-password-q7x", "Canary-Of-A-Name"
    labels = {"tenantry.dev/credential": "identity"}
    metadata = {"name": "ann", "namespace": home, "labels": labels}
    spec = {"environment": "dev", "username": "ann", "passwordSecretRef": {"name": "ann", "key": "password"}}
    with platform.leader():
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete", displayName=shown))
        kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": canary}})
        kube.apply(object_("Identity", "ann", home, **spec))
        kube.ready("identity/ann", home)
        bundle = ("--kubeconfig", str(own.kubeconfig), "doctor", "--bundle", "report.zip")
        done = tenantry(*bundle, cwd=tmp_path, TENANTRY_SERVER=platform.api_url)
        assert done.returncode in (0, 1), done.stderr
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        identities = json.loads(archive.read("objects/Identity.json"))
        content = b"\0".join(archive.read(name) for name in archive.namelist())
    assert "ann" in {each["metadata"]["name"] for each in identities}
    for each in (canary, shown):
        assert not [shape for shape in shapes(each) if shape in content]
