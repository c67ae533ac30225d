"""A dedicated engine that sleeps: no pod, all else as it was."""

from __future__ import annotations

from dataclasses import replace

from tests.contract.deployers import cluster

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
