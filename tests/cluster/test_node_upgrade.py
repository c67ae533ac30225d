"""From the last release to this one on a real node: 200 environments, an Operation, a migration and a deletion under way."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster.charting import CHART
from tests.cluster.running import Kube, condition, object_, token, until
from tests.scenario.backups.old_release import run, unpack_old
from tests.scenario.cli import tenantry
from tests.support.node import READY_S, ROOT, VALUES, Node, engine_of, forwarded, told

pytestmark = [pytest.mark.slow, pytest.mark.node]
HOME = "tenant-fleet"
FLEET, RUNNING = 200, 8
"""Environments, and how many of them have a pod: as many as two cores upgrade within a few minutes."""
RESTS_S = 20.0
"""The time in which a platform at rest must write nothing."""
WAITS, MIGRATES, GOES = "e0", "e1", "e2"
"""Environments with an Operation that waits for a package, with a migration, and under deletion."""
OLD_VALUES: dict[str, Any] = {"image": {**VALUES["image"], "tag": "old"}, "blobs": VALUES["blobs"]}
NEW_VALUES = {**OLD_VALUES, "image": {**VALUES["image"], "tag": "node"}}
ROWS = """
import json, sqlite3
rows = sqlite3.connect("file:/data/engine.db?mode=ro", uri=True)
names = [name for name, in rows.execute("select name from sqlite_master where type='table' and name like 'music_store__%'")]
print(json.dumps({name: rows.execute(f'select count(*) from "{name}"').fetchone()[0] for name in sorted(names)}))
"""


class Old(NamedTuple):
    """The tree of the last release, and where Python finds its code."""

    tree: Path
    code: Path

    @property
    def chart(self) -> Path:
        return self.tree / "charts" / "tenantry"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Old:
    tree = tmp_path_factory.mktemp("old")
    return Old(tree, unpack_old(tree, "."))


@pytest.fixture(scope="module")
def node(old: Old) -> Iterator[Node]:
    own = Node("tenantry-upgrade")
    own.require_programs()
    with own.running(RUNNING + 4, "2Gi", old=old.tree):
        yield own


class Seen(NamedTuple):
    """The parts of a platform that an upgrade could change."""

    versions: dict[str, str]
    """The resourceVersion of each object of ours, by kind and name."""
    pods: dict[str, str]
    """The uid of each engine's pod, by namespace."""
    operations: set[str]


def seen(kube: Kube) -> Seen:
    objects = json.loads(kube("get", "tenantry", "-A", "-o", "json"))["items"]
    pods = json.loads(kube("get", "pods", "-A", "-o", "json"))["items"]
    names = {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"] for each in objects}
    engines = {each["metadata"]["namespace"]: each["metadata"]["uid"] for each in pods}
    return Seen(
        {name: version for name, version in names.items() if not name.startswith("Operation/")},
        {space: uid for space, uid in engines.items() if space.startswith("env-")},
        {name for name in names if name.startswith("Operation/")},
    )


def ready(kube: Kube, kind: str, names: list[str]) -> bool:
    found = {each["metadata"]["name"]: each for each in kube.get(kind, namespace=HOME)}
    return all(name in found and condition(found[name])["status"] == "True" for name in names)


def rows(kube: Kube, name: str) -> dict[str, int]:
    space = engine_of(kube, name, HOME)
    counted: dict[str, int] = json.loads(kube("exec", "-n", space, "engine-0", "--", "python", "-c", ROWS))
    return counted


def change_app(kube: Kube, name: str, **spec: Any) -> None:
    kube("patch", "app.tenantry.dev", f"{name}.music-store", "-n", HOME, "--type=merge", "-p", json.dumps({"spec": spec}))


def install_old(node: Node, kube: Kube, old: Old, folder: Path) -> None:
    """Install the old release, and let it make all environments. What is suspended has no pod."""
    arguments = ("--create-namespace", "--wait", "--timeout=4m", "-f", "-")
    installed = node.helm("install", "tenantry", old.chart, *arguments, given=OLD_VALUES)
    assert installed.returncode == 0, installed.stderr + told(kube)
    kube("apply", "-f", old.tree / "examples/02-music-company/30-packages.yaml")
    kube.apply(object_("Region", "here"), object_("Tenant", "fleet"))
    until(lambda: condition(kube.get("tenant", "fleet"))["status"] == "True", "a tenant", READY_S, lambda: told(kube))
    with forwarded(node) as url:
        for version in ("1.0.0", "1.1.0"):
            push(old, folder, version, url, token(url, kube))
    names = [f"e{number}" for number in range(RUNNING)]
    still = [object_("Environment", f"s{number}", HOME, region="here", suspend=True) for number in range(FLEET - RUNNING)]
    kube.apply(*(object_("Environment", name, HOME, region="here") for name in names), *still)
    about = {"app": "music-store", "version": "1.0.0"}
    kube.apply(*(object_("App", f"{name}.music-store", HOME, environment=name, **about) for name in names))
    until(lambda: ready(kube, "environments", names), "ready", 3 * READY_S, lambda: told(kube))
    until(lambda: ready(kube, "apps.tenantry.dev", [f"{name}.music-store" for name in names]), "installed", 2 * READY_S)


def push(old: Old, folder: Path, version: str, url: str, admin: str) -> None:
    file = old.tree / f"examples/02-music-company/packages/music-store-{version}.tapp"
    pushed = run(old.code, "package", "push", str(file), "--server", url, "--token", admin, cwd=folder)
    assert pushed.returncode == 0, pushed.stderr


def leave_work_undone(kube: Kube) -> None:
    """Begin an Operation that waits for a package, a migration whose engine is killed, and a deletion."""
    change_app(kube, WAITS, version="2.0.0", allowDropsFor="2.0.0")
    kube("delete", "environment", GOES, "-n", HOME, "--wait=false")
    change_app(kube, MIGRATES, version="1.1.0")
    kube("delete", "pod", "engine-0", "-n", engine_of(kube, MIGRATES, HOME), "--grace-period=0", "--force")


def rolled_out(kube: Kube, names: list[str]) -> bool:
    """Return True if those engines run the new release, and all else that can be is Ready."""
    engines = {each["metadata"]["name"]: each["status"].get("engine", {}) for each in kube.get("environments", namespace=HOME)}
    apps = [f"{name}.music-store" for name in names if name != WAITS]
    runs = all(engines[name].get("version") == "node" and not engines[name].get("next") for name in names)
    return runs and ready(kube, "environments", names) and ready(kube, "apps.tenantry.dev", apps)


def test_an_upgrade_from_the_last_release_loses_nothing_and_ends_what_was_under_way(node: Node, old: Old, tmp_path: Path) -> None:
    kube = Kube(node.kubectl)
    install_old(node, kube, old, tmp_path)
    before, counted = seen(kube), {name: rows(kube, name) for name in ("e3", "e4")}
    leave_work_undone(kube)
    began = time.monotonic()
    upgraded = node.helm("upgrade", "tenantry", CHART, "--timeout=4m", "--wait", "-f", "-", given=NEW_VALUES)
    assert upgraded.returncode == 0, upgraded.stderr + told(kube)
    stay = [f"e{number}" for number in range(RUNNING) if f"e{number}" != GOES]
    until(lambda: GOES not in kube.names("environments", HOME), "gone", READY_S, lambda: told(kube))
    until(lambda: rolled_out(kube, stay), "rolled out", 5 * READY_S, lambda: told(kube))

    whole, after = time.monotonic() - began, seen(kube)
    written = [name for name, version in before.versions.items() if after.versions.get(name) != version]
    more = len(after.operations - before.operations)
    sys.stdout.write(f"\nupgrade: {whole:.0f} s; {len(written)} of {len(before.versions)} objects written; {more} Operations\n")
    assert {name: rows(kube, name) for name in counted} == counted
    with forwarded(node) as url:
        file = ROOT / "examples/02-music-company/packages/music-store-2.0.0.tapp"
        pushed = tenantry("package", "push", file, "--server", url, "--token", token(url, kube), cwd=tmp_path)
        assert pushed.returncode == 0, pushed.stderr
    until(lambda: ready(kube, "apps.tenantry.dev", [f"{WAITS}.music-store"]), "installed", READY_S, lambda: told(kube))
    assert [each for each in kube.get("operations") if each["status"].get("status") != "COMPLETED"] == []
    settled, since = seen(kube), time.monotonic()
    until(lambda: time.monotonic() - since >= RESTS_S, "rested", 2 * RESTS_S)
    assert seen(kube) == settled, "nothing is written any more"
