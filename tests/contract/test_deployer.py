"""The contract of a deployer, wherever it places engines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenantry.model.facts import EngineFacts, EngineRef
from tenantry.model.verdicts import EngineTaken, Halt
from tests.contract.deployers import DEPLOYERS, ON_SERVER, Placed, pooled


@pytest.fixture(params=[*DEPLOYERS, pytest.param(ON_SERVER, marks=pytest.mark.slow)])
async def placed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Placed]:
    if request.param == ON_SERVER:
        server = request.getfixturevalue("pool_server")
        async with pooled(tmp_path, server=server) as placed:
            yield placed
        return
    async with DEPLOYERS[request.param](tmp_path) as placed:
        yield placed


async def facts_of(placed: Placed, ref: EngineRef | None = None) -> EngineFacts:
    facts = await placed.deployer.engine(ref or placed.ref)
    assert facts is not None
    return facts


async def test_there_is_no_engine_before_one_is_deployed(placed: Placed) -> None:
    assert await placed.deployer.engine(placed.ref) is None


async def test_a_deployed_engine_is_as_its_spec_says_and_runs(placed: Placed) -> None:
    await placed.deploy()
    facts = await facts_of(placed)
    assert (facts.spec, facts.status, facts.pool) == (placed.spec, "RUNNING", placed.spec.pool)
    assert (facts.altered, facts.missing, facts.route) == ((), "", placed.ref.route)
    assert facts.url == placed.deployer.preview(placed.spec.region, placed.ref.tenant_slug, placed.ref.slug)
    assert placed.ref.id in facts.environment_external_id
    assert facts.external_id.startswith(facts.environment_external_id)
    assert placed.spec.provider == placed.deployer.provider


async def test_deploying_again_changes_nothing(placed: Placed) -> None:
    await placed.deploy()
    before = await facts_of(placed)
    await placed.deploy()
    assert await facts_of(placed) == before


async def test_another_slug_moves_the_engine_and_keeps_it(placed: Placed) -> None:
    await placed.deploy()
    before = await facts_of(placed)
    moved = replace(placed.spec, ref=replace(placed.ref, slug="prod"))
    await placed.deploy(moved)
    after = await facts_of(placed)
    assert (after.id, after.created_at, after.spec) == (before.id, before.created_at, moved)
    assert after.route == moved.ref.route
    assert after.url == placed.deployer.preview(placed.spec.region, placed.ref.tenant_slug, "prod")


async def test_engines_of_one_deployer_come_and_go_by_themselves(placed: Placed) -> None:
    await placed.deploy()
    await placed.deploy(placed.other_spec)
    other = await facts_of(placed, placed.other_spec.ref)
    await placed.remove(placed.ref)
    assert await placed.deployer.engine(placed.ref) is None
    assert await facts_of(placed, placed.other_spec.ref) == other


async def test_an_engine_without_a_host_stays_and_gets_one_again(placed: Placed) -> None:
    await placed.deploy()
    before = await facts_of(placed)
    for _ in range(2):
        await placed.deployer.withdraw(placed.ref)
    withdrawn = await facts_of(placed)
    assert (withdrawn.id, withdrawn.route, withdrawn.spec) == (before.id, None, None)
    await placed.deploy()
    assert await facts_of(placed) == before


async def test_removing_is_done_again_without_harm(placed: Placed) -> None:
    await placed.remove(placed.ref)
    await placed.deploy()
    for _ in range(2):
        await placed.remove(placed.ref)
    assert await placed.deployer.engine(placed.ref) is None


async def test_an_archive_is_made_once_and_outlives_its_engine(placed: Placed) -> None:
    await placed.deployer.snapshot(placed.ref)
    assert await placed.kept() == []
    await placed.deploy()
    await placed.fill(placed.ref)
    for _ in range(2):
        await placed.deployer.snapshot(placed.ref)
    await placed.remove(placed.ref)
    assert await placed.kept() == [placed.ref.id]


@pytest.mark.parametrize("foreign", [{"name": "theirs"}, {"namespace": "tenant-globex"}], ids=str)
async def test_the_engine_of_another_environment_with_the_same_id_is_left_alone(placed: Placed, foreign: dict[str, str]) -> None:
    await placed.deploy()
    before = await facts_of(placed)
    theirs = replace(placed.ref, **foreign)
    try:
        assert await placed.deployer.engine(theirs) is None
        await placed.deployer.undeploy(theirs)
    except EngineTaken:
        pass
    with pytest.raises(Halt):
        await placed.deployer.deploy(replace(placed.spec, ref=theirs), placed.secret)
    assert await facts_of(placed) == before
