"""A state that is missing, removed or damaged: an error that names the file and the way out, and no acknowledged write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.adapters.store.state_folder import StateInUse, StateUnreadable
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.commands.transfer.backups import accept_state
from tenantry.cli.output.failing import Failure
from tenantry.kinds.admission import Admission
from tenantry.model.resource import Ref

GARBAGE = bytes(range(256)) * 64


def tenant(name: str) -> dict[str, object]:
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}, "spec": {}}


def replace(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    copy.rename(path)


def made_a_folder(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.mkdir()


def made_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


HARMS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "the whole folder removed": lambda path: shutil.rmtree(path.parent),
    "replaced": replace,
    "overwritten": lambda path: path.write_bytes(GARBAGE),
    "emptied": lambda path: os.truncate(path, 0),
    "a folder in its place": made_a_folder,
}
STOPPED: dict[str, Callable[[Path], object]] = {
    "overwritten": lambda path: path.write_bytes(GARBAGE),
    "overwritten behind its header": lambda path: path.write_bytes(path.read_bytes()[:4096] + GARBAGE),
    "cut in the middle": lambda path: os.truncate(path, path.stat().st_size // 2 + 100),
    "cut within its header": lambda path: os.truncate(path, 50),
    "emptied": lambda path: os.truncate(path, 0),
    "a folder in its place": made_a_folder,
    "a link to nothing in its place": made_a_link,
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
async def test_no_write_is_acknowledged_once_the_running_state_is_harmed(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    store = await SqliteStore.open(tmp_path / "state", Admission())
    try:
        await store.create(tenant("before"))
        harm(tmp_path / "state" / "state.db")
        with pytest.raises(StateUnreadable, match=r"state\.db was .*put the file back from a copy"):
            await store.create(tenant("after"))
        with pytest.raises(StateUnreadable, match=r"state\.db was .*put the file back from a copy"):
            await store.get(Ref("Tenant", "", "before"))
    finally:
        await store.close()


async def opened(state: Path) -> None:
    platform = await Platform.open(state, "http://here")
    await platform.close()


async def test_a_state_that_is_missing_beside_engines_is_refused_until_they_are_moved_away(tmp_path: Path) -> None:
    await opened(tmp_path)
    (tmp_path / "state.db").unlink()
    with pytest.raises(StateUnreadable, match=r"state\.db is missing, and .*/engines holds engines.* move .*/engines elsewhere"):
        await opened(tmp_path)
    assert not (tmp_path / "state.db").exists()
    (tmp_path / "engines").rename(tmp_path / "old")
    await opened(tmp_path)


@pytest.mark.parametrize("harm", STOPPED.values(), ids=STOPPED)
async def test_a_state_that_is_damaged_is_refused_at_the_start_and_left_as_it_is(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    await opened(tmp_path)
    harm(tmp_path / "state.db")
    for _ in range(2):
        with pytest.raises(StateUnreadable, match=r"state\.db (is|was) .*back from a copy"):
            await opened(tmp_path)


async def test_a_start_that_was_killed_before_its_first_write_goes_on(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    await opened(tmp_path)
    assert (tmp_path / "state.db").stat().st_size


@pytest.mark.parametrize("pattern", ["state.db", "keys/*.jwk", "engines/engines.db"])
async def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, pattern: str) -> None:
    await opened(tmp_path)
    (file,) = tmp_path.glob(pattern)  # noqa: ASYNC240
    file.write_bytes(GARBAGE)
    with pytest.raises(StateUnreadable, match=rf"{file.name}.*back from a copy"):
        await opened(tmp_path)


def copied(state: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in state.glob("state.db*")}


def put_back(state: Path, files: dict[str, bytes]) -> None:
    for file in state.glob("state.db*"):
        file.unlink()
    for name, content in files.items():
        (state / name).write_bytes(content)


async def worked(state: Path, name: str) -> None:
    """A start in which something is written, and an end."""
    platform = await Platform.open(state, "http://here")
    await platform.state.store.create(tenant(name))
    await platform.close()


async def test_a_state_that_is_older_than_its_engines_is_refused_until_a_person_accepts_it(tmp_path: Path) -> None:
    await worked(tmp_path, "first")
    older = copied(tmp_path)
    assert not older.get("state.db-wal"), "a clean stop leaves nothing in the log"
    await worked(tmp_path, "second")
    newest = copied(tmp_path)
    put_back(tmp_path, older)
    for _ in range(2):
        with pytest.raises(StateUnreadable, match=r"state\.db is older than the engines .*accept-state"):
            await opened(tmp_path)
    put_back(tmp_path, newest)
    await opened(tmp_path)
    put_back(tmp_path, older)
    accept_state(tmp_path)
    await opened(tmp_path)
    await worked(tmp_path, "third")


async def test_a_state_is_accepted_where_engines_are_and_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="there are no engines"):
        accept_state(tmp_path)
    platform = await Platform.open(tmp_path, "http://here")
    try:
        with pytest.raises(StateInUse):
            accept_state(tmp_path)
    finally:
        await platform.close()


async def test_a_state_that_lost_the_end_of_its_log_is_refused(tmp_path: Path) -> None:
    await worked(tmp_path, "first")
    platform = await Platform.open(tmp_path, "http://here")
    await platform.state.store.create(tenant("second"))
    without_its_log = {"state.db": (tmp_path / "state.db").read_bytes()}
    await platform.close()
    put_back(tmp_path, without_its_log)
    with pytest.raises(StateUnreadable, match=r"state\.db is older than the engines"):
        await opened(tmp_path)


async def test_the_state_of_another_platform_is_refused(tmp_path: Path) -> None:
    for name in ("here", "there"):
        await worked(tmp_path / name, name)
    for file in ("state.db", "secret.key"):
        shutil.copyfile(tmp_path / "there" / file, tmp_path / "here" / file)
    with pytest.raises(StateUnreadable, match=r"state\.db is not the one that made the engines"):
        await opened(tmp_path / "here")


async def test_a_platform_that_was_killed_starts_again(tmp_path: Path) -> None:
    await worked(tmp_path, "first")
    platform = await Platform.open(tmp_path, "http://here")
    await platform.state.store.create(tenant("second"))
    shutil.copytree(tmp_path, tmp_path.with_name("killed"))
    await platform.close()
    await opened(tmp_path.with_name("killed"))
