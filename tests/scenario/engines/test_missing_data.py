"""Data that vanished is never covered up: nothing is deployed over it until it is put back, or an empty engine is accepted."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.bootstrap import embedded
from tenantry.bootstrap.embedded import Platform
from tenantry.model.facts import Password
from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED, Document, Ref
from tenantry.model.verdicts import Halt
from tests.crash.campaign import copy_of
from tests.scenario.cli import called
from tests.support.planned_platform import DEV, apply, base, dev_endpoint, dev_of, edited, platform_on, write
from tests.support.waiting import eventually

__all__ = ["base"]

CRM = Ref("App", "tenant-acme", "dev.crm")

Loss = Callable[[Path, str], Path]
"""Takes data of an engine away. Returns where it was."""


def folder_of(state: Path, id_: str) -> Path:
    return state / "engines" / id_


def database_of(state: Path, id_: str) -> Path:
    return folder_of(state, id_) / "engine.db"


def all_of(state: Path, id_: str) -> Path:
    return state / "engines"


def emptied(state: Path, id_: str) -> Path:
    os.truncate(database_of(state, id_), 0)
    return database_of(state, id_)


def overwritten(state: Path, id_: str) -> Path:
    database_of(state, id_).write_bytes(os.urandom(20_000))
    return database_of(state, id_)


def removed_folder(state: Path, id_: str) -> Path:
    shutil.rmtree(folder_of(state, id_))
    return folder_of(state, id_)


def removed_database(state: Path, id_: str) -> Path:
    database_of(state, id_).unlink()
    return database_of(state, id_)


LOSSES: dict[str, Loss] = {"its folder": folder_of, "its database": database_of, "all engines": all_of}


def ready(document: Document) -> str:
    return next(str(each["reason"]) for each in document["status"]["conditions"] if each["type"] == "Ready")


async def settled(platform: Platform, ref: Ref = DEV) -> str:
    platform.runtime.look(ref)
    await platform.runtime.idle()
    return ready(await platform.state.writing.get(ref))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
async def test_a_lost_engine_is_stalled_until_its_data_is_put_back(base: Path, tmp_path: Path, loss: Loss) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        await apply(platform, write(tmp_path / "source", edited({})))
        id_ = (await dev_of(platform)).id
        assert await platform.ports.engines.at(await dev_endpoint(platform)).apps_with_rows() == {"crm"}
    lost = loss(state, id_)
    shutil.move(lost, tmp_path / "elsewhere")
    async with platform_on(state) as platform:
        assert await settled(platform) == "DataMissing"
        assert not lost.exists() or loss is all_of
        assert not database_of(state, id_).exists()
        if loss is all_of:
            return
        shutil.move(tmp_path / "elsewhere", lost)
        assert await settled(platform) == "Succeeded"
        assert await platform.ports.engines.at(await dev_endpoint(platform)).apps_with_rows() == {"crm"}


@pytest.mark.parametrize("loss", [folder_of, database_of], ids=["its folder", "its database"])
async def test_a_running_engine_takes_no_write_over_its_lost_data(base: Path, tmp_path: Path, loss: Loss) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        endpoint = await dev_endpoint(platform)
        engine = platform.ports.engines.at(endpoint)
        await engine.add_identity("before", Password(clear="a long password"))
        lost = loss(state, endpoint.environment_id)
        shutil.move(lost, tmp_path / "elsewhere")
        with pytest.raises(Halt):
            await engine.add_identity("after", Password(clear="a long password"))
        assert not lost.exists()
        assert await settled(platform) == "DataMissing"
        with pytest.raises(Halt):
            await engine.apps()
        assert not lost.exists()


async def becomes(platform: Platform, reason: str) -> None:
    """Wait until the environment has that reason, without an edit or a request to look at it."""

    async def has_become() -> bool:
        return ready(await platform.state.writing.get(DEV)) == reason

    await eventually(has_become)


async def usernames(platform: Platform) -> set[str]:
    return {one.username for one in await platform.ports.engines.at(await dev_endpoint(platform)).identities()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "running"),
    [
        (removed_folder, True),
        (removed_database, True),
        (emptied, True),
        (overwritten, True),
        (emptied, False),
        (overwritten, False),
    ],
)
async def test_harm_to_the_data_shows_by_itself_and_ends_when_it_is_put_back(
    base: Path, tmp_path: Path, harm: Loss, running: bool
) -> None:
    state, copy = copy_of(base, tmp_path / "state"), tmp_path / "copy"
    async with platform_on(state) as platform:
        endpoint = await dev_endpoint(platform)
        await platform.ports.engines.at(endpoint).add_identity("before", Password(clear="a long password"))
    folder = folder_of(state, endpoint.environment_id)
    shutil.copytree(folder, copy)
    if not running:
        harm(state, endpoint.environment_id)
    async with platform_on(state) as platform:
        if running:
            assert await usernames(platform) >= {"before"}
            harm(state, endpoint.environment_id)
        with pytest.raises(Halt):
            await platform.ports.engines.at(endpoint).add_identity("after", Password(clear="a long password"))
        await becomes(platform, "DataMissing")
        shutil.rmtree(folder, ignore_errors=True)
        copy.rename(folder)
        await becomes(platform, "Succeeded")
        assert (await usernames(platform)) >= {"before"}
        assert "after" not in await usernames(platform)


@pytest.mark.parametrize("harm", [shutil.rmtree, lambda state: (state / "state.db").write_bytes(os.urandom(20_000))])
async def test_a_platform_says_by_itself_that_its_state_is_gone(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(embedded, "STATE_S", 0.05)
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        assert platform.facade.ready()
        harm(state)

        async def not_ready() -> bool:
            return not platform.facade.ready()

        await eventually(not_ready)
        (fault,) = [each for each in platform.host.supervisor.faults if each.startswith("state: ")]
        assert "state.db was " in fault
        assert "put the file back from a copy" in fault


async def test_an_overwritten_engine_is_kept_aside_when_an_empty_one_is_accepted(base: Path, tmp_path: Path) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        id_ = (await dev_endpoint(platform)).environment_id
        await platform.ports.engines.at(await dev_endpoint(platform)).add_identity("before", Password(clear="a long password"))
    harmed = overwritten(state, id_).read_bytes()
    accepted = await asyncio.to_thread(called, "accept-empty", "tenant-acme/dev", "--state", state, cwd=tmp_path)
    assert accepted.returncode == 1, "nobody has looked yet"
    async with platform_on(state) as platform:
        await becomes(platform, "DataMissing")
    accepted = await asyncio.to_thread(called, "accept-empty", "tenant-acme/dev", "--state", state, cwd=tmp_path)
    assert (accepted.returncode, accepted.stderr) == (0, "")
    async with platform_on(state) as platform:
        await becomes(platform, "Succeeded")
        assert "before" not in await usernames(platform)
        assert [each.read_bytes() for each in (state / "lost").glob("*/engine.db")] == [harmed]


async def test_an_accepted_empty_engine_is_filled_as_declared_and_the_rest_of_the_lost_one_is_kept(
    base: Path, tmp_path: Path
) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        id_ = (await dev_of(platform)).id
        engine = platform.ports.engines.at(await dev_endpoint(platform))
        await engine.add_identity("before", Password(clear="a long password"))
        database_of(state, id_).unlink()
        assert await settled(platform) == "DataMissing"
        document = await platform.state.writing.get(DEV)
        annotations = {**document["metadata"].get("annotations", {}), ACCEPT_EMPTY_REQUESTED: "now"}
        written = {**document, "metadata": {**document["metadata"], "annotations": annotations}}
        await platform.state.writing.replace(written, document["metadata"]["resourceVersion"])
        assert await settled(platform) == "Succeeded"
        assert await settled(platform, CRM) == "Succeeded"
        assert await engine.apps_with_rows() == {"crm"}
        assert "before" not in {one.username for one in await engine.identities()}
        assert [each.name.startswith(id_) for each in (state / "lost").iterdir()] == [True]
        database_of(state, id_).unlink()
        assert await settled(platform) == "DataMissing", "it was accepted once"


async def test_the_command_accepts_an_empty_engine_only_where_data_is_missing(base: Path, tmp_path: Path) -> None:
    state = copy_of(base, tmp_path / "state")
    command = ("accept-empty", "tenant-acme/dev", "--state", state)
    refused = await asyncio.to_thread(called, *command, cwd=tmp_path)
    assert (refused.returncode, "misses no data" in refused.stderr) == (1, True), refused.stderr
    async with platform_on(state) as platform:
        id_ = (await dev_of(platform)).id
        assert await settled(platform) == "Succeeded", "a refused request has no effect"
        database_of(state, id_).unlink()
        assert await settled(platform) == "DataMissing"
    accepted = await asyncio.to_thread(called, *command, cwd=tmp_path)
    assert (accepted.returncode, accepted.stderr) == (0, "")
    async with platform_on(state) as platform:
        assert await settled(platform) == "Succeeded"
        assert await settled(platform, CRM) == "Succeeded"
        assert [each.name.startswith(id_) for each in (state / "lost").iterdir()] == [True]
