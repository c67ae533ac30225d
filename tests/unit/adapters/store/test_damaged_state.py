"""A state that is missing, removed or damaged: an error that names the file and the way out, and no acknowledged write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.adapters.store.state_folder import StateUnreadable
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.admission import Admission

GARBAGE = bytes(range(256)) * 64


def tenant(name: str) -> dict[str, object]:
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}, "spec": {}}


def replace(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    copy.rename(path)


HARMS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "the whole folder removed": lambda path: shutil.rmtree(path.parent),
    "replaced": replace,
    "overwritten": lambda path: path.write_bytes(GARBAGE),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
async def test_no_write_is_acknowledged_once_the_running_state_is_harmed(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    store = await SqliteStore.open(tmp_path / "state", Admission())
    try:
        await store.create(tenant("before"))
        harm(tmp_path / "state" / "state.db")
        with pytest.raises(StateUnreadable, match=r"state\.db was .*put it back from a copy"):
            await store.create(tenant("after"))
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


@pytest.mark.parametrize("pattern", ["state.db", "keys/*.jwk", "engines/engines.db"])
async def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, pattern: str) -> None:
    await opened(tmp_path)
    (file,) = tmp_path.glob(pattern)  # noqa: ASYNC240
    file.write_bytes(GARBAGE)
    with pytest.raises(StateUnreadable, match=rf"{file.name}.*back from a copy"):
        await opened(tmp_path)
