"""A dedicated engine that sleeps: no pod, all else as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.wire import object_path
from tenantry.adapters.kubernetes.engines.backups import ClusterBackups
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.model.facts import EngineRef
from tenantry.model.resource import WAKE_REQUESTED, Ref
from tenantry.model.verdicts import NotFound
from tests.contract.deployers import cluster
from tests.unit.adapters.kubernetes.engines.fake_api import FakeApi

SINCE = "2026-11-28T20:00:00Z"


async def test_an_engine_sleeps_from_the_moment_at_which_it_is_told_and_wakes_as_it_was() -> None:
    there = await cluster()
    kit, ref = there.kit, there.kit.ref
    await kit.deploy()
    await there.settle(ref)
    asleep = replace(kit.spec, asleep=SINCE)
    before = {path: held for path, held in there.api.held.items() if held["kind"] != "StatefulSet"}
    await kit.deploy(asleep)
    facts = await kit.engine()  # its pod may still be stopping
    assert (facts.status, facts.spec, facts.asleep, facts.altered) == ("SLEEPING", asleep, SINCE, ())
    assert (await kit.get("StatefulSet"))["spec"]["replicas"] == 0
    assert {path: held for path, held in there.api.held.items() if held["kind"] != "StatefulSet"} == before
    await kit.deploy()
    assert (await kit.get("StatefulSet"))["spec"]["replicas"] == 1
    await there.settle(ref)
    facts = await kit.engine()
    assert (facts.status, facts.spec, facts.asleep) == ("RUNNING", kit.spec, "")


async def test_an_engine_that_somebody_else_scales_does_not_sleep() -> None:
    there = await cluster()
    kit = there.kit
    await kit.deploy()
    await kit.patch("StatefulSet", {"spec": {"replicas": 0}})
    facts = await kit.engine()
    assert (facts.asleep, facts.spec, facts.altered) == ("", None, ("its StatefulSet was changed at spec.replicas",))


async def test_an_engine_that_was_changed_while_it_sleeps_still_sleeps() -> None:
    there = await cluster()
    kit = there.kit
    asleep = replace(kit.spec, asleep=SINCE)
    await kit.deploy(asleep)
    await kit.delete("Service")
    facts = await kit.engine()
    assert (facts.status, facts.asleep, facts.spec) == ("SLEEPING", SINCE, None)
    await kit.deploy(asleep)
    assert ((await kit.engine()).spec, (await kit.get("StatefulSet"))["spec"]["replicas"]) == (asleep, 0)


@pytest.mark.parametrize("spec", [{"region": "eu"}, {"region": "eu", "hibernation": {"after": "30m"}}])
async def test_a_backup_wakes_an_engine_that_may_sleep_before_it_looks_for_its_pod(tmp_path: Path, spec: dict[str, Any]) -> None:
    api, path = FakeApi(), object_path(Ref("Environment", "tenant-acme", "dev"))
    api.put(path, {"kind": "Environment", "metadata": {"name": "dev"}, "spec": spec, "status": {}})

    def operator(method: str, asked: str) -> None:
        if (method, asked) == ("PATCH", path):
            held = api.held[path]
            api.held[path] = {**held, "status": {"lastHandledWakeAt": held["metadata"]["annotations"][WAKE_REQUESTED]}}

    async def declared(ref: EngineRef) -> tuple[()]:
        return ()

    api.after = operator
    backups = ClusterBackups(api.client, declared, ArchiveKey(tmp_path / "key"), tmp_path)
    with pytest.raises(NotFound, match="no engine on this cluster"):
        await backups.write(EngineRef("tenant-acme", "dev", "e1"), tmp_path / "dev.tar", ())
    looks = [method for method, asked in api.asked if asked == path]
    assert looks.count("PATCH") == ("hibernation" in spec)
    assert api.asked[-1][1].endswith("/pods/engine-0")
