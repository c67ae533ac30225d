"""The whole way on a node of its own: image, chart, examples/02, packages, the console, an upgrade, a pod's death, the end."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cluster.charting import CHART, NAMESPACE
from tests.cluster.node_console import look_around
from tests.cluster.running import Kube, condition, token, until
from tests.scenario.cli import COMMAND, environment, tenantry
from tests.support.node import READY_S, ROOT, VALUES, Node, engine_of, forwarded, kube, node, told

__all__ = ["kube", "node"]

pytestmark = [pytest.mark.slow, pytest.mark.node]
EXAMPLE = ROOT / "examples" / "02-music-company"
TRACKS = len((ROOT / "examples/packages/music-store-1.0.0/seed/Track.ndjson").read_text().splitlines())
COUNT = """
import sqlite3
rows = sqlite3.connect("file:/data/engine.db?mode=ro", uri=True)
tables = [name for name, in rows.execute("select name from sqlite_master where type='table' and name like '%Track%'")]
print({name: rows.execute(f'select count(*) from "{name}"').fetchone()[0] for name in sorted(tables)})
"""


def all_ready(kube: Kube) -> bool:
    """Return True if everything that the example declares is Ready."""
    kinds = ("tenants", "regions", "packages", "environments", "apps.tenantry.dev", "users")
    return all(condition(each)["status"] == "True" for kind in kinds for each in kube.get(kind))


def rows(kube: Kube, pod_namespace: str) -> str:
    """The number of rows in the engine's tables of tracks, asked in its pod."""
    return kube("exec", "-n", pod_namespace, "engine-0", "--", "python", "-c", COUNT)


def test_the_chart_installs_and_the_music_company_comes_goes_and_leaves_nothing(node: Node, kube: Kube, tmp_path: Path) -> None:
    installed = node.helm("install", "tenantry", CHART, "--create-namespace", "--wait", "--timeout=3m", "-f", "-", given=VALUES)
    assert installed.returncode == 0, installed.stderr + told(kube)
    tested = node.helm("test", "tenantry", "--timeout=2m")
    assert tested.returncode == 0, tested.stdout + tested.stderr

    kube("apply", "-R", "-f", EXAMPLE)
    with forwarded(node) as url:
        admin = token(url, kube)
        for package in sorted((EXAMPLE / "packages").glob("*.tapp")):
            pushed = tenantry("package", "push", package, "--server", url, "--token", admin, cwd=tmp_path)
            assert pushed.returncode == 0, pushed.stderr
        until(lambda: all_ready(kube), "all ready:", READY_S, lambda: told(kube))

        asyncio.run(look_around(url, kube))
        _upgrade(kube)
        _lose_a_pod(kube)
        _bring_back(node, kube, tmp_path)
    _release(node, kube)
    _delete(kube)
    _uninstall(node, kube)


def _upgrade(kube: Kube) -> None:
    """Promotes what staging runs already; its data stays."""
    kube(
        "patch",
        "app.tenantry.dev",
        "production.music-store",
        "-n",
        "tenant-europe",
        "--type=merge",
        "-p",
        '{"spec":{"version":"1.1.0"}}',
    )

    def upgraded() -> bool:
        found = kube.get("app.tenantry.dev", "production.music-store", "tenant-europe")
        return bool(found["status"].get("installedVersion") == "1.1.0" and condition(found)["status"] == "True")

    until(upgraded, "upgraded:", READY_S, lambda: told(kube))


def _lose_a_pod(kube: Kube) -> None:
    engine = engine_of(kube, "production", "tenant-europe")
    before = rows(kube, engine)
    assert f"'music_store__Track': {TRACKS}" in before
    uid = kube.get("pod", "engine-0", engine)["metadata"]["uid"]
    kube("delete", "pod", "engine-0", "-n", engine)

    def back() -> bool:
        pod = kube.run("get", "pod", "engine-0", "-n", engine, "-o", "json").stdout
        return bool(pod) and json.loads(pod)["metadata"]["uid"] != uid and condition(json.loads(pod))["status"] == "True"

    until(back, "back:", READY_S, lambda: told(kube))
    until(lambda: all_ready(kube), "all ready:", READY_S, lambda: told(kube))
    assert rows(kube, engine) == before


def _bring_back(node: Node, kube: Kube, folder: Path) -> None:
    """A backup while it serves; what is deleted comes back from its kept volume, and from the backup under another name."""

    def call(*arguments: str | Path) -> str:
        ended = subprocess.run(
            [*COMMAND, *node.command("kubectl")[1:], *map(str, arguments)],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=READY_S * 2,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr + told(kube)
        return ended.stdout

    def delete(name: str) -> None:
        kube("delete", "environment", name, "-n", "tenant-europe", "--timeout=120s")

    id_, before = identity(kube, "production"), rows(kube, engine_of(kube, "production", "tenant-europe"))
    free = '{"spec":{"deletionProtection":false}}'
    kube("patch", "environment", "production", "-n", "tenant-europe", "--type=merge", "-p", free)
    call("backup", "tenant-europe/production", "-o", "production.tar")
    delete("production")
    (kept,) = json.loads(call("backups", "-o", "json"))
    assert (kept["id"], kept["namespace"], kept["name"]) == (id_, "tenant-europe", "production")
    assert "Environment/tenant-europe/production restored" in call("restore", id_)
    until(lambda: all_ready(kube), "all ready:", READY_S, lambda: told(kube))
    assert identity(kube, "production") == id_
    assert rows(kube, engine_of(kube, "production", "tenant-europe")) == before
    assert json.loads(call("backups", "-o", "json")) == []

    delete("production")
    assert "Environment/tenant-europe/copy restored" in call("restore", "production.tar", "--as", "tenant-europe/copy")
    until(lambda: all_ready(kube), "all ready:", READY_S, lambda: told(kube))
    assert identity(kube, "copy") == id_
    assert rows(kube, engine_of(kube, "copy", "tenant-europe")) == before
    delete("copy")


def identity(kube: Kube, name: str) -> str:
    found = kube.get("environment", name, "tenant-europe")
    return str(found["spec"].get("id") or found["metadata"]["uid"])


def _delete(kube: Kube) -> None:
    """Everything that was declared; nothing of it stays."""
    refused = kube.run("delete", "environment", "production", "-n", "tenant-americas")
    assert "is protected" in refused.stderr
    regions, tenants = kube.run("delete", "regions", "--all"), kube.run("delete", "tenants", "--all", "--wait=false")
    assert " this region: delete " in regions.stderr
    assert "Tenant/americas cannot be deleted: 1 environment of this tenant is protected" in tenants.stderr
    assert not kube.get("tenant", "americas")["metadata"].get("deletionTimestamp")
    assert kube.names("environments", "tenant-americas") == ["production", "staging"], "all of it stays until that is decided"
    free = '{"spec":{"deletionProtection":false}}'
    kube("patch", "environment", "production", "-n", "tenant-americas", "--type=merge", "-p", free)
    until(lambda: kube.get("tenant", "americas")["status"]["protectedEnvironments"] == 0, "counted:", READY_S)
    kube("delete", "tenants", "--all", "--wait=false")
    until(lambda: not kube.get("tenants"), "gone:", READY_S, lambda: told(kube))
    assert [name for name in kube.names("namespaces") if name.startswith("env-")] == []
    for namespace in ("tenant-americas", "tenant-europe", "tenant-records"):
        assert kube.names("rolebindings", namespace) == [], "an adopted namespace is released"
    kube("delete", "-R", "-f", EXAMPLE, "--ignore-not-found", "--timeout=60s")


def _release(node: Node, kube: Kube) -> None:
    """On a full node: refused, explained, released, uninstalled, installed again; the data stays."""
    engine = engine_of(kube, "production", "tenant-americas")
    before = rows(kube, engine)
    fill(kube)
    refused = node.helm("uninstall", "tenantry", "--timeout=2m")
    assert refused.returncode != 0
    why = kube("logs", "-n", NAMESPACE, "job/tenantry-uninstall")
    assert "objects cannot be deleted once the operator is gone" in why
    upgraded = node.helm("upgrade", "tenantry", CHART, "-f", "-", given=VALUES)
    assert "has no deployed releases" in upgraded.stderr
    commands = [line.strip() for line in why.splitlines()]
    for beginning in ("kubectl create clusterrolebinding", "helm uninstall"):
        (command,) = [each for each in commands if each.startswith(beginning)]
        program, *arguments = shlex.split(command.removesuffix(f" --namespace {NAMESPACE}"))
        done = node.kubectl(*arguments) if program == "kubectl" else node.helm(*arguments, "--wait", "--timeout=3m")
        assert done.returncode == 0, done.stderr + told(kube)
    assert rows(kube, engine) == before, "engines go on running"
    kube("delete", "pod", "filler", "-n", "default", "--wait=false")
    installed = node.helm("install", "tenantry", CHART, "--wait", "--timeout=3m", "-f", "-", given=VALUES)
    assert installed.returncode == 0, installed.stderr + told(kube)
    until(lambda: all_ready(kube), "all ready again:", READY_S, lambda: told(kube))
    assert rows(kube, engine) == before


def fill(kube: Kube) -> None:
    """Leaves no CPU of the node that could be asked for."""
    free = millis(kube.get("nodes")[0]["status"]["allocatable"]["cpu"]) - sum(
        millis(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for pod in json.loads(kube("get", "pods", "-A", "-o", "json"))["items"]
        if pod["status"]["phase"] in ("Pending", "Running")
        for container in pod["spec"]["containers"]
    )
    image = kube.get("pod", "engine-0", engine_of(kube, "production", "tenant-americas"))["spec"]["containers"][0]["image"]
    container = {
        "name": "filler",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python", "-c", "import time; time.sleep(3600)"],
        "resources": {"requests": {"cpu": f"{free}m"}},
    }
    body = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    kube(
        "apply",
        "-f",
        "-",
        given={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "filler", "namespace": "default"}, "spec": body},
    )
    kube("wait", "--for=condition=Ready", "pod/filler", "-n", "default", "--timeout=60s")


def millis(cpu: str) -> int:
    return int(cpu.removesuffix("m")) if cpu.endswith("m") else int(float(cpu) * 1000)


def _uninstall(node: Node, kube: Kube) -> None:
    kube("delete", "users,operations", "--all", "-n", NAMESPACE, "--timeout=60s")
    removed = node.helm("uninstall", "tenantry", "--wait", "--timeout=3m")
    assert removed.returncode == 0, removed.stderr + told(kube)
    kinds = "clusterroles,clusterrolebindings,validatingadmissionpolicies,deployments,services,secrets,persistentvolumeclaims"
    left = kube("get", kinds, "-A", "-o", "name").split()
    ours = {name for name in left if "tenantry" in name}
    assert ours == {"secret/tenantry-admin", "secret/tenantry-keys", "persistentvolumeclaim/tenantry-blobs"}, (
        "what a later release goes on with"
    )
