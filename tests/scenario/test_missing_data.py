"""Data that vanished is never covered up: nothing is deployed over it until it is put back, or an empty engine is accepted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import endpoint_of
from tenantry.model.facts import EngineEndpoint, Password
from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED, Document, Ref
from tenantry.model.verdicts import Halt
from tests.crash.campaign import copy_of
from tests.scenario.cli import called
from tests.scenario.test_plan_is_apply import apply, base, edited, platform_on, write

__all__ = ["base"]

DEV = Ref("Environment", "tenant-acme", "dev")
CRM = Ref("App", "tenant-acme", "dev.crm")

Loss = Callable[[Path, str], Path]
"""Takes data of an engine away. Returns where it was."""


def folder_of(state: Path, id_: str) -> Path:
    return state / "engines" / id_


def database_of(state: Path, id_: str) -> Path:
    return folder_of(state, id_) / "engine.db"


def all_of(state: Path, id_: str) -> Path:
    return state / "engines"


LOSSES: dict[str, Loss] = {"its folder": folder_of, "its database": database_of, "all engines": all_of}


def ready(document: Document) -> str:
    return next(str(each["reason"]) for each in document["status"]["conditions"] if each["type"] == "Ready")


async def environment(platform: Platform) -> Environment:
    return Environment.model_validate(await platform.writing.get(DEV))


async def settled(platform: Platform, ref: Ref = DEV) -> str:
    platform.runtime.look(ref)
    await platform.runtime.idle()
    return ready(await platform.writing.get(ref))


async def engine_at(platform: Platform) -> EngineEndpoint:
    endpoint = endpoint_of(await environment(platform))
    assert endpoint is not None
    return endpoint


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
async def test_a_lost_engine_is_stalled_until_its_data_is_put_back(base: Path, tmp_path: Path, loss: Loss) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        await apply(platform, write(tmp_path / "source", edited({})))
        id_ = (await environment(platform)).id
        assert await platform.ports.engines.at(await engine_at(platform)).apps_with_rows() == {"crm"}
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
        assert await platform.ports.engines.at(await engine_at(platform)).apps_with_rows() == {"crm"}


@pytest.mark.parametrize("loss", [folder_of, database_of], ids=["its folder", "its database"])
async def test_a_running_engine_takes_no_write_over_its_lost_data(base: Path, tmp_path: Path, loss: Loss) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        endpoint = await engine_at(platform)
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


async def test_an_accepted_empty_engine_is_filled_as_declared_and_the_rest_of_the_lost_one_is_kept(
    base: Path, tmp_path: Path
) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        id_ = (await environment(platform)).id
        engine = platform.ports.engines.at(await engine_at(platform))
        await engine.add_identity("before", Password(clear="a long password"))
        database_of(state, id_).unlink()
        assert await settled(platform) == "DataMissing"
        document = await platform.writing.get(DEV)
        annotations = {**document["metadata"].get("annotations", {}), ACCEPT_EMPTY_REQUESTED: "now"}
        written = {**document, "metadata": {**document["metadata"], "annotations": annotations}}
        await platform.writing.replace(written, document["metadata"]["resourceVersion"])
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
        id_ = (await environment(platform)).id
        assert await settled(platform) == "Succeeded", "a refused request has no effect"
        database_of(state, id_).unlink()
        assert await settled(platform) == "DataMissing"
    accepted = await asyncio.to_thread(called, *command, cwd=tmp_path)
    assert (accepted.returncode, accepted.stderr) == (0, "")
    async with platform_on(state) as platform:
        assert await settled(platform) == "Succeeded"
        assert await settled(platform, CRM) == "Succeeded"
        assert [each.name.startswith(id_) for each in (state / "lost").iterdir()] == [True]
