"""A pool that is removed: nothing of it is left, but the volume with the archives of removed environments."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tenantry.adapters.kubernetes.engines.backups import ClusterBackups
from tenantry.adapters.kubernetes.engines.kept_volumes import kept_volumes
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.model.facts import EngineRef, EngineSpec, Trust
from tenantry.model.verdicts import Halt, NotFound
from tests.contract.deployers import Controllers, Placed, cluster, pooled
from tests.support.pools import POOL

POOL_REF = EngineRef("", "home", POOL, slug="small")
VOLUME = f"/api/v1/persistentvolumes/pv-{POOL}"


async def removed(there: Controllers, placed: Placed) -> None:
    await placed.deployer.deploy(EngineSpec(POOL_REF, "home", "Kubernetes", capacity=2), placed.secret)
    await there.bind(POOL_REF)
    await there.settle(POOL_REF)
    await placed.remove(POOL_REF)
    assert await placed.deployer.engine(POOL_REF) is None


async def archive(placed: Placed) -> None:
    """An environment that was removed from the pool."""
    await placed.deploy()
    await placed.fill(placed.ref)
    await placed.deployer.snapshot(placed.ref)
    await placed.remove(placed.ref)


@pytest.mark.parametrize("archives", [True, False])
async def test_its_volume_is_kept_if_it_has_archives(tmp_path: Path, archives: bool) -> None:
    there = await cluster()
    async with pooled(tmp_path, there) as placed:
        if archives:
            await archive(placed)
        await removed(there, placed)
    policy = there.api.held[VOLUME]["spec"]["persistentVolumeReclaimPolicy"]
    assert (policy, [each.is_of_pool for each in await kept_volumes(there.api.client)]) == (
        ("Retain", [True]) if archives else ("Delete", [])
    )


async def test_its_volume_is_let_go_when_its_time_is_over(tmp_path: Path) -> None:
    there = await cluster()
    async with pooled(tmp_path, there) as placed:
        await archive(placed)
        await removed(there, placed)
    (kept,) = await kept_volumes(there.api.client)
    there.kit.declared.settle()
    client_of = there.kit.deployer.client_of
    for later, policy in ((timedelta(seconds=-1), "Retain"), (timedelta(seconds=1), "Delete")):
        await there.kit.volumes.sweep(client_of, frozenset, kept.until + later)
        assert there.api.held[VOLUME]["spec"]["persistentVolumeReclaimPolicy"] == policy
    assert await kept_volumes(there.api.client) == []


async def test_its_volume_is_no_backup_of_an_environment(tmp_path: Path) -> None:
    there = await cluster()
    async with pooled(tmp_path, there) as placed:
        await archive(placed)
        await removed(there, placed)

    async def declared(ref: EngineRef) -> tuple[()]:
        return ()

    backups = ClusterBackups(there.api.client, declared, ArchiveKey(tmp_path / "key"), tmp_path)
    assert await backups.kept() == ()
    with pytest.raises(NotFound):
        await backups.find(POOL, Trust())


async def test_it_stays_while_it_holds_an_engine(tmp_path: Path) -> None:
    there = await cluster()
    async with pooled(tmp_path, there) as placed:
        await placed.deploy()
        with pytest.raises(Halt, match="holds 1 engine"):
            await removed(there, placed)
    assert not await kept_volumes(there.api.client)
