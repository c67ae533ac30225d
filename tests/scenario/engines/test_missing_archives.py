"""A deletion that promises an archive ends with one: where the data is gone, it waits for a person, and nothing goes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tenantry.adapters.local.folders import EngineFolders
from tenantry.bootstrap.embedded import Platform
from tenantry.model.resource import Ref
from tenantry.model.verdicts import NotFound
from tests.crash.campaign import copy_of
from tests.support.planned_platform import DEV, base, dev_endpoint, dev_of, platform_on
from tests.support.waiting import eventually

__all__ = ["base"]

CRM = Ref("App", "tenant-acme", "dev.crm")


async def set_policy(platform: Platform, policy: str) -> None:
    document = await platform.state.writing.get(DEV)
    written = {**document, "spec": {**document["spec"], "deletionPolicy": policy}}
    await platform.state.writing.replace(written, document["metadata"]["resourceVersion"])


async def delete(platform: Platform) -> None:
    """Ask for the deletion of dev, which promises an archive."""
    await set_policy(platform, "Snapshot")
    await platform.state.writing.delete((await dev_of(platform)).held)


async def waits(platform: Platform) -> str:
    """Wait until the deletion waits for missing data. Returns the message."""

    async def message() -> str:
        document = await platform.state.writing.get(DEV)
        ready = next(each for each in document["status"]["conditions"] if each["type"] == "Ready")
        return str(ready["message"]) if ready["reason"] == "DataMissing" else ""

    return await eventually(message)


async def is_gone(platform: Platform) -> bool:
    with suppress(NotFound):
        await platform.state.writing.get(DEV)
        return False
    return True


def archives(state: Path) -> list[str]:
    return [path.name for path in (state / "backups").glob("*.tar")]


async def test_a_deletion_waits_for_data_that_is_gone_and_archives_it_when_it_is_back(base: Path, tmp_path: Path) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        folder = state / "engines" / (await dev_endpoint(platform)).environment_id
        shutil.move(folder, tmp_path / "elsewhere")
        await delete(platform)
        message = await waits(platform)
        assert ("spec.deletionPolicy" in message, str(folder) in message) == (True, True)
        assert (await platform.state.writing.get(CRM))["metadata"].get("deletionTimestamp") is None, "what is in it stays"
        assert archives(state) == []
        shutil.move(tmp_path / "elsewhere", folder)
        await eventually(lambda: is_gone(platform))
        assert [name.startswith(folder.name) for name in archives(state)] == [True]


async def test_a_deletion_goes_on_without_an_archive_when_none_is_promised_any_more(base: Path, tmp_path: Path) -> None:
    state = copy_of(base, tmp_path / "state")
    async with platform_on(state) as platform:
        shutil.rmtree(state / "engines" / (await dev_endpoint(platform)).environment_id)
        await delete(platform)
        await waits(platform)
        await set_policy(platform, "Delete")
        await eventually(lambda: is_gone(platform))
        assert archives(state) == []


async def test_a_deletion_that_was_interrupted_after_its_archive_ends(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = copy_of(base, tmp_path / "state")
    write = EngineFolders._write

    def interrupted(folders: EngineFolders, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if statement.startswith("DELETE"):
            raise OSError("the folder is in the trash, and the record is still there")
        write(folders, statement, rows)

    with monkeypatch.context() as patch:
        patch.setattr(EngineFolders, "_write", interrupted)
        async with platform_on(state) as platform:
            folder = state / "engines" / (await dev_endpoint(platform)).environment_id
            await delete(platform)
            await eventually(lambda: not folder.exists())
    async with platform_on(state) as platform:
        await eventually(lambda: is_gone(platform))
        assert [name.startswith(folder.name) for name in archives(state)] == [True]
