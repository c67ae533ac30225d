"""The volume of a pool is full: what is new is refused with the reason, what is there stays, and then it goes on."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenantry.adapters.local.backups import KEEP
from tenantry.adapters.pools.archives import VolumePlace, receive, send
from tenantry.model.facts import EngineRef, Trust
from tenantry.model.verdicts import Halt, Transient
from tests.scenario.data_world import HASHED
from tests.support.pools import OTHER, OTHER_SPEC, POOL, REF, SPEC, PoolKit, pool_of, sent
from tests.support.small_disk import disk, full

__all__ = ["disk"]

pytestmark = pytest.mark.slow
DECLARED = {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "dev"}, "spec": {"region": "eu"}}


@pytest.fixture
async def kit(disk: Path) -> AsyncIterator[PoolKit]:
    async with pool_of(disk) as kit:
        await kit.pools.deploy(SPEC, await sent())
        await kit.admin().add_identity("ann", HASHED)
        yield kit


async def people(kit: PoolKit, ref: EngineRef = REF) -> set[str]:
    return {each.username for each in await kit.admin(ref).identities()}


async def test_a_new_engine_is_refused_with_the_reason_and_made_once_there_is_room(kit: PoolKit, disk: Path) -> None:
    with full(disk, 0):
        with pytest.raises(Halt) as refused:
            await kit.pools.deploy(OTHER_SPEC, await sent())
        assert isinstance(refused.value.verdict, Transient)
        assert (refused.value.verdict.reason, "disk is full" in refused.value.verdict.message) == ("StateFolder", True)
        assert await kit.pools.engine(POOL, OTHER) is None
        facts = await kit.pools.engine(POOL, REF)
        assert facts is not None
        assert (facts.spec, facts.status) == (SPEC, "RUNNING")
    await kit.pools.deploy(OTHER_SPEC, await sent())
    assert (await people(kit), await people(kit, OTHER)) == ({"admin", "ann"}, {"admin"})


async def test_a_write_to_an_engine_is_refused_with_the_reason_and_keeps_what_is_there(kit: PoolKit, disk: Path) -> None:
    with full(disk, 0), pytest.raises(Halt) as refused:
        await kit.admin().add_identity("bob", HASHED)
    assert "disk of the database cannot be written" in refused.value.told
    assert await people(kit) == {"admin", "ann"}
    await kit.admin().add_identity("bob", HASHED)
    assert await people(kit) == {"admin", "ann", "bob"}


async def test_a_backup_that_finds_no_room_leaves_nothing_and_its_engine_waits_on(kit: PoolKit, disk: Path) -> None:
    await kit.pools.snapshot(POOL, REF, [DECLARED])
    await kit.pools.undeploy(POOL, REF)
    out = io.BytesIO()
    send(VolumePlace(disk / "data", KEEP), REF.id, out)
    await kit.pools.deploy(replace(SPEC, restoring=f"{REF.id}@2026-01-01T00:00:00Z"), await sent())
    with full(disk, len(out.getvalue()) + (16 << 10)), pytest.raises(OSError, match="No space left"):
        receive(VolumePlace(disk / "data", KEEP), io.BytesIO(out.getvalue()), REF.id, disk / "scratch", Trust())
    assert list((disk / "data" / "restoring").iterdir()) == []
    facts = await kit.pools.engine(POOL, REF)
    assert facts is not None
    assert facts.status == "PENDING"
    receive(VolumePlace(disk / "data", KEEP), io.BytesIO(out.getvalue()), REF.id, disk / "scratch", Trust())
    await kit.pools.deploy(replace(SPEC, restoring=f"{REF.id}@2026-01-01T00:00:00Z"), await sent())
    assert await people(kit) == {"admin", "ann"}
