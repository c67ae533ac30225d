"""The commands that steer a Source, on a platform that `tenantry up` runs beside a source of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scenario.cli import called, serving, until
from tests.scenario.git.source_world import SYSTEM
from tests.scenario.git_world import API, REGION
from tests.scenario.repositories import Remote

pytestmark = pytest.mark.slow


def test_a_source_is_looked_at_suspended_resumed_and_its_pruning_approved(tmp_path: Path) -> None:
    remote = Remote.at(tmp_path / "platform.git")
    remote.commit({f"{name}.yaml": REGION.replace("eu", name) for name in ("eu", "us", "ap")})
    (tmp_path / "folder").mkdir()
    spec = f"{{url: 'file://{remote.folder}', interval: 1h, prune: {{objects: 0, percent: 10}}}}"
    declared = f"{API}kind: Source\nmetadata: {{name: platform, namespace: {SYSTEM}}}\nspec: {spec}\n"
    (tmp_path / "source.yaml").write_text(declared)

    def said(*arguments: str) -> str:
        done = called(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status() -> dict[str, Any]:
        told: dict[str, Any] = json.loads(said("get", "source", "platform", "-o", "json"))["status"]
        return told

    with serving("up", "folder", "--listen", "127.0.0.1:0", cwd=tmp_path):
        assert said("apply", "-f", "source.yaml") == "source/platform created\n"
        assert said("reconcile", "source/platform", "--wait") == "source/platform is Ready\n"
        assert "platform" in said("get", "sources")
        assert said("reconcile", "source/default") == "source/default is applied\n"
        assert said("suspend", "source/platform") == "source/platform suspended\n"
        remote.commit({"eu.yaml": None, "us.yaml": None})
        before = status()["revision"]
        refused = called("reconcile", "source/platform", "--wait", cwd=tmp_path)
        assert "is suspended" in refused.stderr
        assert said("resume", "source/platform") == "source/platform resumed\n"
        until(lambda: status()["revision"] != before and "approval" in status())
        held = called("reconcile", "source/platform", "--wait", cwd=tmp_path)
        assert held.returncode == 1
        assert f"tenantry approve source/platform -n {SYSTEM}" in held.stderr
        assert sorted(said("approve", "source/platform", "-n", SYSTEM).splitlines()) == [
            "Region/eu approved",
            "Region/us approved",
        ]
        until(lambda: "approval" not in status())
        nothing = called("approve", "source/platform", cwd=tmp_path)
        assert nothing.stderr == "nothing in source/platform waits for approval\n"
        wrong = called("approve", "region/ap", cwd=tmp_path)
        assert wrong.stderr.startswith("region/ap is not a Source")
        assert said("delete", "source/platform").startswith("source/platform")
        until(lambda: json.loads(said("get", "sources", "-o", "json")) == [])
        assert json.loads(said("get", "region", "ap", "-o", "json"))["metadata"].get("labels", {}) == {}
