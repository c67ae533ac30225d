"""Applying does exactly what the plan says: the same edits, effects in the same order, Operations and ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.operation.spec import Operation
from tenantry.model.declared import PARTS, for_people
from tenantry.model.resource import SOURCE, Document, Ref
from tenantry.runtime.cache import Cache
from tenantry.runtime.planning import plan, planner
from tenantry.runtime.planning.planned import Planned
from tests.crash.campaign import copy_of
from tests.crash.story import object_
from tests.support.planned_edits import EDITS
from tests.support.planned_platform import (
    BASE,
    SOURCE_NAME,
    app,
    apply,
    base,
    edited,
    environment,
    not_ready,
    objects,
    platform_on,
    secret,
    write,
)

__all__ = ["base"]


async def planned(platform: Platform, folder: Path) -> tuple[Planned, Cache]:
    """The plan, and the objects as they would be."""
    with mock.patch.object(planner, "plan", wraps=plan.plan) as made:
        planned = await platform.plan_source(folder, SOURCE_NAME)
    return planned, made.call_args.args[1].cache


def declared(documents: Mapping[Ref, Document]) -> dict[Ref, Any]:
    """The declared content of the source's objects that are not being deleted."""
    return {
        ref: (document.get("spec"), document.get("data"), *(for_people(document["metadata"], part) for part in PARTS))
        for ref, document in documents.items()
        if document["metadata"].get("labels", {}).get(SOURCE) and not document["metadata"].get("deletionTimestamp")
    }


def signs(before: Mapping[Ref, Document], after: Mapping[Ref, Document]) -> dict[Ref, str]:
    """The edit of each declared object, as plan signs it."""
    had, has = declared(before), declared(after)
    return {
        ref: "+" if ref not in had else "-" if ref not in has else "~"
        for ref in had.keys() | has.keys()
        if had.get(ref) != has.get(ref)
    }


def operations(cache: Cache, known: frozenset[str]) -> list[tuple[Any, ...]]:
    """The content of the Operations that are not known yet, without ids and times, which differ from run to run."""
    found = [one for one in cache.resources("Operation") if isinstance(one, Operation) and one.id not in known]
    return sorted(
        (
            one.spec.target.kind,
            one.spec.target.namespace,
            one.spec.target.name,
            one.spec.action,
            one.spec.subject,
            one.spec.cause,
            one.spec.steps,
            one.status.status,
            one.status.result,
            one.status.code,
        )
        for one in found
    )


async def compare(platform: Platform, folder: Path) -> Planned:
    """Plans and applies the folder, and holds the one against the other."""
    before = objects(platform.state.cache)
    known = frozenset(one.id for one in platform.state.cache.resources("Operation") if isinstance(one, Operation))
    plan, imagined = await planned(platform, folder)
    assert objects(platform.state.cache) == before, "a plan does nothing"

    course = await apply(platform, folder)
    after = objects(platform.state.cache)

    effects: dict[Ref, list[str]] = defaultdict(list)
    for ref, change in plan.effects:
        effects[ref].append(str(change))
    assert effects == course.done
    assert {edit.ref: edit.sign for edit in plan.edits} == signs(before, after)
    assert operations(imagined, known) == operations(platform.state.cache, known)
    assert {ref: verdict.reason for ref, verdict in plan.verdicts} == not_ready(after)
    assert platform.source is not None
    assert plan.problems == tuple(map(str, platform.source.last.problems))
    kept = [(one.held.ref, one.reason, one.approvable) for one in platform.source.last.kept]
    assert [(one.held.ref, one.reason, one.approvable) for one in plan.kept] == kept
    return plan


@pytest.mark.slow
async def test_everything_at_once(tmp_path: Path) -> None:
    async with platform_on(tmp_path / "state") as platform:
        plan = await compare(platform, write(tmp_path / "source", BASE))
    assert len(plan.edits) == len(BASE)
    assert not plan.verdicts


@pytest.mark.slow
@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
async def test_a_plan_is_what_applying_does(base: Path, tmp_path: Path, edits: dict[str, str | None]) -> None:
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await compare(platform, write(tmp_path / "source", edited(edits)))


async def test_a_plan_of_what_is_applied_is_empty(base: Path, tmp_path: Path) -> None:
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        assert (await platform.plan_source(write(tmp_path / "source", BASE), SOURCE_NAME)).empty


async def test_a_plan_tells_that_a_secret_changes_and_not_to_what(base: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "source", edited({"ann's secret": secret("ann", "identity", "hunter2")}))
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        plan = await platform.plan_source(source, SOURCE_NAME)
    assert list(map(str, plan.edits)) == ["~ Secret/tenant-acme/ann (data.password)"]
    assert "hunter2" not in repr(plan)


async def test_a_plan_names_the_data_that_would_be_lost(base: Path, tmp_path: Path) -> None:
    allowed = edited({"dev.crm": app("dev", "version: 2.0.0, allowDropsFor: 2.0.0")})
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        plan = await platform.plan_source(write(tmp_path / "source", allowed), SOURCE_NAME)
    assert plan.loses_data
    lines = [str(change) for _, change in plan.effects]
    assert "crm: install 2.0.0, adds column contacts.phone, drops column contacts.fax (losing, 1 row)" in lines


@pytest.mark.slow
async def test_an_environment_keeps_rows_whose_app_left_the_source_before(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await apply(platform, write(folder, edited({"dev.crm": None})))
        source = platform.source
        assert source is not None
        assert {each.held.ref.name: each.reason for each in source.last.kept} == {"dev.crm": "holds data"}
        source.syncer.approve()
        await source.sync()
        await platform.converged()
        assert platform.state.cache.entry(Ref("App", "tenant-acme", "dev.crm")) is None
        without = {"dev.crm": None, "dev": None, "ann": None, "corp": None}
        plan = await platform.plan_source(write(tmp_path / "next", edited(without)), SOURCE_NAME)
        kept = (await platform.attach(tmp_path / "next", SOURCE_NAME).sync()).kept
    assert {each.held.ref.name: each.reason for each in kept}["dev"] == "holds data"
    assert [(each.held.ref, each.reason) for each in plan.kept] == [(each.held.ref, each.reason) for each in kept]


@pytest.mark.slow
async def test_a_protected_environment_keeps_its_contents(base: Path, tmp_path: Path) -> None:
    protected = {"spare": environment("spare", ", deletionProtection: true"), "spare.crm": app("spare", "keep: [1.0.0]")}
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await apply(platform, write(tmp_path / "source", edited(protected)))
        plan = await platform.plan_source(write(tmp_path / "next", edited({**protected, "spare.crm": None})), SOURCE_NAME)
        kept = (await platform.attach(tmp_path / "next", SOURCE_NAME).sync()).kept
    assert [(each.held.ref.name, each.reason) for each in kept] == [
        ("spare.crm", "is in environment spare, which deletionProtection protects")
    ]
    assert plan.kept == kept


@pytest.mark.slow
@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
async def test_a_plan_that_is_made_again_has_the_same_digest(base: Path, tmp_path: Path, edits: dict[str, str | None]) -> None:
    source = write(tmp_path / "source", edited(edits))
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        first = await platform.plan_source(source, SOURCE_NAME)
        again = await platform.plan_source(source, SOURCE_NAME)
    async with platform_on(copy_of(base, tmp_path / "other")) as platform:
        elsewhere = await platform.plan_source(source, SOURCE_NAME)
    assert first.digest == again.digest == elsewhere.digest


async def test_a_plan_prints_what_applying_releases(base: Path, tmp_path: Path) -> None:
    held = {**BASE, "umbra": object_("Tenant", "umbra", "{}").replace("{name: umbra", KEPT, 1)}
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await apply(platform, write(tmp_path / "source", held))
        plan = await platform.plan_source(write(tmp_path / "next", BASE), SOURCE_NAME)
        assert [str(step) for step in plan.steps] == ['~ Tenant/umbra (source: "default" -> (none))']
        released = (await platform.attach(tmp_path / "next", SOURCE_NAME).sync()).released
        assert released == (Ref("Tenant", "", "umbra"),)


KEPT = "{name: umbra, annotations: {tenantry.dev/prune: disabled}"
