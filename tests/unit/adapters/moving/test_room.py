"""A copy that comes to a pool leaves room for the engines that are there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tenantry.adapters.moving.room import CopyRoom
from tenantry.model.verdicts import Halt

MIB = 1 << 20
WHOLE = 1000 * MIB


class Usage(NamedTuple):
    total: int
    free: int


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A disk of 1,000 MiB. The item is what is free."""
    free = [WHOLE]
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(WHOLE, free[0]))
    return free


async def arrives(room: CopyRoom, disk: list[int] | None, mib: int) -> None:
    """Let an archive come, one MiB after the other."""
    async with room.taken() as count:
        for _ in range(mib):
            count(MIB)
            if disk is not None:
                disk[0] -= MIB


@pytest.mark.parametrize(("free", "fits"), [(1000, 475), (500, 225), (52, 1), (50, 0), (0, 0)])
async def test_an_archive_leaves_a_twentieth_of_the_disk_after_it_is_unpacked(
    tmp_path: Path, disk: list[int], free: int, fits: int
) -> None:
    disk[0] = free * MIB
    await arrives(CopyRoom(tmp_path), disk, fits)
    disk[0] = free * MIB
    with pytest.raises(Halt, match="NoRoomForCopy"):
        await arrives(CopyRoom(tmp_path), disk, fits + 1)


@pytest.mark.parametrize(("there", "fits"), [(0, 475), (100, 425), (950, 0)])
async def test_a_folder_with_a_limit_has_room_beside_what_is_in_it(tmp_path: Path, there: int, fits: int) -> None:
    (tmp_path / "packages").mkdir()
    with (tmp_path / "packages" / "one").open("wb") as file:
        file.truncate(there * MIB)
    await arrives(CopyRoom(tmp_path, WHOLE), None, fits)
    with pytest.raises(Halt, match="NoRoomForCopy"):
        await arrives(CopyRoom(tmp_path, WHOLE), None, fits + 1)


async def test_archives_that_come_at_once_share_the_room(tmp_path: Path) -> None:
    room = CopyRoom(tmp_path, WHOLE)
    async with room.taken() as one, room.taken() as other:
        one(300 * MIB)
        other(175 * MIB)
        with pytest.raises(Halt, match="NoRoomForCopy"):
            other(MIB)
        with pytest.raises(Halt, match="NoRoomForCopy"):
            one(MIB)
    await arrives(room, None, 475)


async def test_what_came_into_a_folder_beside_an_archive_has_its_room_from_the_next_one_on(tmp_path: Path) -> None:
    room = CopyRoom(tmp_path, WHOLE)
    async with room.taken() as long:
        long(100 * MIB)
        for name, mib in (("held", 100), ("opened", 450)):
            with (tmp_path / name).open("wb") as file:
                file.truncate(mib * MIB)
        await arrives(room, None, 150)
        with pytest.raises(Halt, match="NoRoomForCopy"):
            await arrives(room, None, 151)


async def test_a_refusal_says_what_is_needed_and_nothing_of_others(tmp_path: Path) -> None:
    room = CopyRoom(tmp_path, WHOLE)
    async with room.taken() as one, room.taken() as other:
        one(400 * MIB)
        with pytest.raises(Halt) as refused:
            other(80 * MIB)
    told = str(refused.value)
    assert "a copy of 80 MiB or more" in told and "storage.size" in told
    assert "400" not in told and str(tmp_path) not in told
