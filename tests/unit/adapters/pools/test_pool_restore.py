"""An engine of a pool that comes from a backup: it waits for it, takes it in once, and never starts empty instead."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.backups import KEEP
from tenantry.adapters.pools.archives import VolumePlace, listing, parse_listing, receive, send
from tenantry.adapters.pools.client import Pools
from tenantry.model.facts import EngineFacts, Password, Trust
from tenantry.model.verdicts import Halt, Invalid, NotFound, Transient
from tests.support.pools import COMING, DECLARED, OTHER, OTHER_SPEC, POOL, REF, SPEC, URL, PoolKit, pool_of, sent


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[PoolKit]:
    async with pool_of(tmp_path / "pool") as kit:
        yield kit


def place_of(kit: PoolKit) -> VolumePlace:
    return VolumePlace(kit.folder / "data", KEEP)


async def facts_of(kit: PoolKit) -> EngineFacts:
    facts = await kit.pools.engine(POOL, REF)
    assert facts is not None
    return facts


async def people(kit: PoolKit) -> list[str]:
    return sorted(each.username for each in await kit.admin().identities())


async def archived(kit: PoolKit) -> bytes:
    """The archive of a removed engine with the user alice, as a command in the pod reads it."""
    await kit.pools.deploy(SPEC, await sent())
    await kit.admin().add_identity("alice", Password(clear="battery staple"))
    await kit.pools.snapshot(POOL, REF, [DECLARED])
    await kit.pools.undeploy(POOL, REF)
    out = io.BytesIO()
    send(place_of(kit), REF.id, out)
    return out.getvalue()


def bring(kit: PoolKit, archive: bytes, id_: str = REF.id) -> None:
    receive(place_of(kit), io.BytesIO(archive), id_, kit.folder / "scratch", Trust())


async def test_an_engine_waits_for_its_backup_and_opens_with_it(kit: PoolKit) -> None:
    archive = await archived(kit)
    await kit.pools.deploy(COMING, await sent())
    waits = await facts_of(kit)
    assert (waits.status, waits.spec, waits.pool) == ("PENDING", COMING, POOL)
    assert await kit.signs_in("correct horse") == 503
    bring(kit, archive)
    assert ((await facts_of(kit)).status, (await facts_of(kit)).spec) == ("PENDING", None)
    await kit.pools.deploy(COMING, await sent())
    assert ((await facts_of(kit)).status, (await facts_of(kit)).spec) == ("RUNNING", COMING)
    assert await people(kit) == ["admin", "alice"]
    await kit.pools.deploy(SPEC, await sent())
    assert (await facts_of(kit)).spec == SPEC
    assert await people(kit) == ["admin", "alice"]


async def test_a_waiting_engine_still_waits_after_a_restart_and_takes_its_place(tmp_path: Path) -> None:
    async with pool_of(tmp_path / "pool", capacity=1) as kit:
        archive = await archived(kit)
        await kit.pools.deploy(COMING, await sent())
    async with pool_of(tmp_path / "pool", capacity=1) as kit:
        assert (await facts_of(kit)).status == "PENDING"
        with pytest.raises(Halt) as refused:
            await kit.pools.deploy(OTHER_SPEC, await sent())
        assert refused.value.verdict.reason == "PoolFull"
        bring(kit, archive)
    async with pool_of(tmp_path / "pool", capacity=1) as kit:
        await kit.pools.deploy(COMING, await sent())
        assert await people(kit) == ["admin", "alice"]


async def test_a_crash_before_the_record_of_the_backup_loses_nothing(kit: PoolKit) -> None:
    archive = await archived(kit)
    await kit.pools.deploy(COMING, await sent())
    bring(kit, archive)
    kit.opened.backups.staging.take(REF, kit.opened.folders.folder(REF.id))
    await kit.pools.deploy(COMING, await sent())
    assert await people(kit) == ["admin", "alice"]


async def test_without_the_mark_it_starts_empty_like_a_pod(kit: PoolKit) -> None:
    await kit.pools.deploy(COMING, await sent())
    await kit.pools.deploy(SPEC, await sent())
    assert ((await facts_of(kit)).status, await people(kit)) == ("RUNNING", ["admin"])


async def test_a_backup_that_was_brought_goes_with_its_engine(kit: PoolKit) -> None:
    archive = await archived(kit)
    await kit.pools.deploy(COMING, await sent())
    bring(kit, archive)
    await kit.pools.undeploy(POOL, REF)
    await kit.pools.deploy(SPEC, await sent())
    assert await people(kit) == ["admin"]


async def test_only_an_engine_that_waits_takes_a_backup(kit: PoolKit) -> None:
    archive = await archived(kit)
    with pytest.raises(NotFound, match="waits for a backup"):
        bring(kit, archive)
    await kit.pools.deploy(SPEC, await sent())
    with pytest.raises(NotFound, match="waits for a backup"):
        bring(kit, archive)
    await kit.pools.deploy(OTHER_SPEC, await sent())
    with pytest.raises(NotFound, match="waits for a backup"):
        bring(kit, archive, OTHER.id)


async def test_a_damaged_backup_is_refused_and_the_engine_waits_on(kit: PoolKit) -> None:
    archive = await archived(kit)
    await kit.pools.deploy(COMING, await sent())
    with pytest.raises(Invalid):
        bring(kit, archive[: len(archive) // 2])
    assert ((await facts_of(kit)).status, (await facts_of(kit)).spec) == ("PENDING", COMING)


async def test_the_archives_of_a_pool_are_listed_with_the_key_that_signed_them(kit: PoolKit) -> None:
    assert parse_listing(listing(place_of(kit))) == ("", ())
    await archived(kit)
    key, (facts,) = parse_listing(listing(place_of(kit)))
    assert (facts.id, facts.namespace, facts.name, facts.signer) == (REF.id, REF.namespace, REF.name, key)
    with pytest.raises(NotFound, match="no archive"):
        send(place_of(kit), OTHER.id, io.BytesIO())


async def test_a_pool_of_an_earlier_release_makes_no_empty_engine(tmp_path: Path) -> None:
    """It knows deploy only, and says of any other command that it is none."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path.rpartition("/")[2])
        verdict = {"kind": "Stalled", "reason": "Invalid", "message": "path: is not of a pool's interface", "by": "User"}
        return httpx.Response(400, json={"verdict": {**verdict, "until": None, "taken": False, "absent": False}})

    pools = Pools(KeyRing(tmp_path, "tenantry"), lambda pool: URL, lambda url: httpx.MockTransport(answer))
    with pytest.raises(Halt) as refused:
        await pools.deploy(COMING, await sent())
    await pools.aclose()
    assert (asked, type(refused.value.verdict), refused.value.verdict.reason) == (["expect"], Transient, "PoolAnswer")
    assert "earlier release" in refused.value.verdict.message
