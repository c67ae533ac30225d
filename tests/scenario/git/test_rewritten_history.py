"""A repository whose history was rewritten: a plan shows what a sync does, and deletes nothing without approval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tenantry.model.resource import RECONCILE_REQUESTED
from tenantry.model.tree import Declared, Place, Revision, Tree
from tenantry.rest.plan_bundle import MEDIA_TYPE, write_bundle
from tests.cluster.releases import helm, kubectl, own, release
from tests.cluster.running import until
from tests.scenario.either_host import host
from tests.scenario.hosts import Host, condition, object_
from tests.scenario.repositories import Remote

__all__ = ["helm", "host", "kubectl", "own", "release"]
pytestmark = pytest.mark.slow
SYSTEM = "tenantry-system"
READY_S = 60.0


class Followed:
    """A Source that is read when it is asked for, and its repository with two Regions."""

    def __init__(self, host: Host, folder: Path, name: str, **spec: Any) -> None:
        self.host, self.name, self._asked = host, name, 0
        self.one, self.two = f"{name}-one", f"{name}-two"
        self.remote = Remote.at(folder / f"{name}.git")
        self.first = self.remote.commit({"one.yaml": _region(self.one), "two.yaml": _region(self.two)})
        self._source = object_("Source", SYSTEM, name, url=f"file://{self.remote.folder}", branch="main", interval="1h", **spec)
        host.apply(self._source)
        until(lambda: self.status.get("settledRevision") == self.first, "applied", READY_S, lambda: str(self.status))

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.host.get("sources", SYSTEM, self.name).get("status", {})
        return found

    def rewrite(self) -> str:
        """The branch is a new history, without the second Region; its commit."""
        return self.remote.commit({"two.yaml": None}, parent="none")

    def planned(self) -> dict[str, Any]:
        """The output of `tenantry plan --server`."""
        where = ("--server", self.host.url, "--token", self.host.token)
        told = self.host.cli("plan", self.remote.url(), "--source-name", f"{SYSTEM}.{self.name}", "-o", "json", *where)
        assert told.returncode in (0, 1), told.stderr
        body: dict[str, Any] = json.loads(told.stdout)
        return body

    def synced(self) -> dict[str, str]:
        """The objects that a sync holds back, each with its reason."""
        self._asked += 1
        asked = {RECONCILE_REQUESTED: str(self._asked)}
        self.host.apply({**self._source, "metadata": {**self._source["metadata"], "annotations": asked}})
        until(lambda: self.status.get("lastHandledReconcileAt") == str(self._asked), "read again", READY_S)
        tip = self.remote.git("rev-parse", "main")
        until(lambda: self.status.get("revision") == tip, "at the tip", READY_S, lambda: str(self.status))
        return {each["object"]: each["reason"] for each in self.status.get("kept", ())}

    def regions(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.host.objects("regions")} & {self.one, self.two}


def _region(name: str) -> str:
    return f"apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {{name: {name}}}\nspec: {{displayName: {name}}}\n"


def _kept(planned: dict[str, Any]) -> dict[str, str]:
    return {each["object"]: each["reason"] for each in planned["kept"]}


def test_a_plan_of_a_rewritten_history_holds_back_what_the_sync_holds_back(host: Host, tmp_path: Path) -> None:
    source = Followed(host, tmp_path, "rewritten")
    commit = source.rewrite()
    reason = f"{source.first[:12]}, which was applied before, is not in the history of {commit[:12]}"
    held = {f"Region/{source.two}": reason}
    planned = source.planned()
    assert (planned["changes"], _kept(planned)) == ([], held)
    assert source.synced() == held
    assert condition(host.get("sources", SYSTEM, source.name), "Stalled")[1] == "PruneHeld"
    assert _kept(source.planned()) == held, "also when the sync has seen it"
    host("approve", f"source/{source.name}", "-n", SYSTEM)
    until(lambda: source.regions() == {source.one}, "pruned once it is approved", READY_S)


def test_a_plan_of_the_next_commit_deletes_what_the_sync_deletes(host: Host, tmp_path: Path) -> None:
    source = Followed(host, tmp_path, "followed")
    for _ in range(3):
        source.remote.commit({"README": "more"})
        source.remote.commit({"README": None})
    source.remote.commit({"two.yaml": None})
    planned = source.planned()
    assert (planned["changes"], _kept(planned)) == ([f"- Region/{source.two}"], {})
    assert source.synced() == {}
    until(lambda: source.regions() == {source.one}, "pruned", READY_S)


def test_a_plan_of_a_source_keeps_to_the_budget_of_that_source(host: Host, tmp_path: Path) -> None:
    source = Followed(host, tmp_path, "thrifty", prune={"objects": 0, "percent": 0})
    source.remote.commit({"two.yaml": None})
    held = {f"Region/{source.two}": "1 of the source's 2 objects left it at once"}
    planned = source.planned()
    assert (planned["changes"], _kept(planned)) == ([], held)
    assert source.synced() == held


def test_a_client_that_sends_no_history_is_not_believed_to_have_followed_it(host: Host, tmp_path: Path) -> None:
    source = Followed(host, tmp_path, "silent")
    bundle = tmp_path / "bundle.zip"
    declared = Declared.of(yaml.safe_load(_region(source.one)), Place("one.yaml", 1))
    tree = Tree((declared,), revision=Revision("1" * 40))
    write_bundle(bundle, tree, f"{SYSTEM}.{source.name}", {})
    headers = {"Authorization": f"Bearer {host.token}", "Content-Type": MEDIA_TYPE}
    answer = httpx.post(f"{host.url}/api/v1/plans", content=bundle.read_bytes(), headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.json()["changes"] == []
    assert "is not in the history of 111111111111" in _kept(answer.json())[f"Region/{source.two}"]
