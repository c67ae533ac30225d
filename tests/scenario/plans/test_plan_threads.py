"""The work of a plan that grows with it runs in other threads than the event loop's."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tenantry.bootstrap import applying
from tenantry.hosts.console.local import LocalConsole
from tenantry.hosts.console.protocol import About, Approved
from tenantry.rest.fairness import long_steps
from tenantry.rest.plan_bundle import MEDIA_TYPE
from tenantry.runtime.planning import plan as making
from tenantry.runtime.planning.planned import Planned
from tests.scenario.rest_world import world_in
from tests.support.saved_plans import ENVIRONMENT, bundle_of

REGION = "apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {name: us}\n"


class Threads:
    """The names of the threads in which functions ran, by the names of the functions."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.of: dict[str, set[str]] = defaultdict(set)

    def note(self, owner: Any, name: str) -> None:
        whole = getattr(owner, name)

        def noted(*given: Any) -> Any:
            self.of[name].add(threading.current_thread().name)
            return whole(*given)

        self._patch.setattr(owner, name, noted)

    def assert_elsewhere(self, *names: str) -> None:
        """Each ran, and never in the thread that asks: the event loop's."""
        here = threading.current_thread().name
        assert {name: here in self.of[name] for name in names if self.of[name]} == dict.fromkeys(names, False)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    """Of plans that all count as long."""
    monkeypatch.setattr(long_steps, "LARGE", 0)
    return Threads(monkeypatch)


async def test_a_tenant_s_plan_over_rest_is_put_together_elsewhere(tmp_path: Path, threads: Threads) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.yaml").write_text(ENVIRONMENT.replace("NAME", "dev").replace("TENANT", "acme"))
    async with world_in(tmp_path / "state") as world:
        await world.tenant("acme")
        await world.platform.converged()
        content = await bundle_of(tmp_path / "src", tmp_path / "work")
        threads.note(making, "_edit_of")
        for name in ("of", "within", "to_json"):
            threads.note(Planned, name)
        answer = await world("acme-admin", "POST", "/plans", content=content, headers={"Content-Type": MEDIA_TYPE})
    assert "+ Environment/tenant-acme/dev" in answer.json()["changes"]
    threads.assert_elsewhere("_edit_of", "of", "within", "to_json")


async def test_a_plan_on_the_spot_is_shown_and_compared_elsewhere(tmp_path: Path, threads: Threads) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.yaml").write_text(REGION)

    async with world_in(tmp_path / "state") as world:
        platform = world.platform

        async def plans(source: str, name: str) -> Planned:
            return await platform.plan_source(Path(source), name)

        nothing: Any = None
        console = LocalConsole(About("v1", ""), nothing, nothing, nothing, nothing, plans, nothing)
        threads.note(Planned, "to_json")
        threads.note(applying, "check_holds")
        report = await console.plan(str(tmp_path / "src"), "default")
        await applying.apply_plan(platform, Approved(str(tmp_path / "src"), "default", report.digest, report.changes))
    assert report.changes == ("+ Region/us",)
    threads.assert_elsewhere("to_json", "check_holds")
