"""An engine that comes into a pod of its own: nothing is served before it is whole, and no crash loses a file of it."""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import httpx
import pytest
from starlette.types import ASGIApp

from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.adapters.moving import coming
from tenantry.adapters.moving.arriving import Arrival, ComingEngine
from tenantry.adapters.moving.coming import KEPT, is_awaited
from tenantry.adapters.moving.leaving import LeavingEngine, Packed
from tenantry.adapters.moving.wire import PREPARED
from tenantry.adapters.pools.client import Pools
from tenantry.engine.service import Engine
from tenantry.model.facts import MOVING_MARK, EngineRef
from tenantry.model.verdicts import Halt
from tests.scenario.data_world import HASHED

REF = EngineRef("tenant-acme", "dev", "e1", "acme", "dev", "uid-acme")


class Copied(NamedTuple):
    """A copy of the engine's last state, and what it was packed as."""

    archive: Path
    packed: Packed


@pytest.fixture
async def copied(tmp_path: Path) -> Copied:
    """The copy of an engine with the user alice."""
    old, scratch, archive = tmp_path / "old", tmp_path / "scratch", tmp_path / "copy.tar"
    for folder in (old, scratch):
        folder.mkdir()
    engine = await Engine.open(old, owner=REF.id)
    await engine.add_identity("alice", HASHED)
    await engine.close()
    leaving = LeavingEngine(old, scratch, ArchiveKey(old / "backup-key"))
    await leaving.freeze()
    packed = await leaving.pack()
    archive.write_bytes(b"".join([block async for block in packed.blocks]))
    return Copied(archive, packed)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """The empty volume of the new pod, with the keys of a pod to which an engine comes."""
    for name in ("volume", "keys"):
        (tmp_path / name).mkdir()
    (tmp_path / "keys" / MOVING_MARK).write_text(REF.id)
    return tmp_path / "volume"


async def test_a_copy_is_read_twice_to_be_checked_and_unpacked(copied: Copied, volume: Path) -> None:
    with mock.patch.object(tarfile, "open", wraps=tarfile.open) as opened:
        Arrival(volume, REF).put(copied.archive, copied.packed)
    assert opened.call_count == 2


async def users(folder: Path) -> list[str]:
    engine = await Engine.open(folder, owner=REF.id)
    try:
        return [each.username for each in await engine.identities()]
    finally:
        await engine.close()


async def test_a_take_that_ends_anywhere_is_ended_by_the_next_start(
    copied: Copied, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival = Arrival(volume, REF)
    arrival.put(copied.archive, copied.packed)
    with ending_after(0, monkeypatch), pytest.raises(KeyboardInterrupt):
        arrival.take(copied.packed.token)
    left = volume / KEPT / coming.FILES
    for count in range(len(list(left.iterdir())), 0, -1):
        assert len(list(left.iterdir())) == count
        with ending_after(1, monkeypatch), pytest.raises(KeyboardInterrupt):
            is_awaited(volume, volume.parent / "keys")
    assert not is_awaited(volume, volume.parent / "keys")
    assert not (volume / KEPT).exists()
    assert await users(volume) == ["admin", "alice"]


@contextmanager
def ending_after(renames: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process ends after so many files were brought to their place."""
    left = [renames]

    def durable(path: Path) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1

    with monkeypatch.context() as patched:
        patched.setattr(coming, "make_durable", durable)
        yield


async def test_a_take_can_be_repeated_until_the_engine_is_open(copied: Copied, volume: Path) -> None:
    arrival = Arrival(volume, REF)
    arrival.put(copied.archive, copied.packed)
    arrival.take(copied.packed.token)
    arrival.put(copied.archive, copied.packed)
    arrival.take(copied.packed.token)
    assert arrival.state == "Copied"
    assert await users(volume) == ["admin", "alice"]


@pytest.mark.parametrize(
    ("mark", "engine", "awaited"), [(True, False, True), (True, True, False), (False, False, False), (False, True, False)]
)
def test_an_engine_is_awaited_by_an_empty_volume_with_the_mark(volume: Path, *, mark: bool, engine: bool, awaited: bool) -> None:
    keys = volume.parent / "keys"
    if not mark:
        (keys / MOVING_MARK).unlink()
    if engine:
        (volume / "token-key.jwk").write_text("{}")
    assert is_awaited(volume, keys) is awaited


@pytest.mark.parametrize("token", ["", PREPARED, "another"])
async def test_only_the_copy_of_the_last_state_is_taken(copied: Copied, volume: Path, token: str) -> None:
    arrival = Arrival(volume, REF)
    arrival.put(copied.archive, copied.packed)
    with pytest.raises(Halt, match="not that of the engine's last state"):
        arrival.take(token)


async def test_a_move_that_was_given_up_ends_for_good(copied: Copied, volume: Path) -> None:
    arrival = Arrival(volume, REF)
    arrival.put(copied.archive, copied.packed)
    arrival.give_up()
    for again in (arrival, Arrival(volume, REF)):
        with pytest.raises(Halt, match="given up"):
            again.take(copied.packed.token)
        with pytest.raises(Halt, match="given up"):
            again.put(copied.archive, copied.packed)


async def test_an_engine_that_came_is_not_given_up(copied: Copied, volume: Path) -> None:
    arrival = Arrival(volume, REF)
    arrival.put(copied.archive, copied.packed)
    arrival.take(copied.packed.token)
    with pytest.raises(Halt, match="runs in this pod already"):
        arrival.give_up()


class Pod(NamedTuple):
    """people: somebody who calls the pod; pools: the operator's client."""

    people: httpx.AsyncClient
    pools: Pools


@pytest.fixture
async def pod(volume: Path) -> AsyncIterator[Pod]:
    keys = KeyRing(volume.parent / "platform", "tenantry")

    async def never() -> ASGIApp:
        raise AssertionError("nothing came")

    transport = httpx.ASGITransport(ComingEngine(Arrival(volume, REF), REF.id, keys, never))
    pools = Pools(keys, lambda id_: "http://pod", lambda url: transport)
    async with httpx.AsyncClient(transport=transport, base_url="http://pod") as people:
        yield Pod(people, pools)
    await pools.aclose()


async def test_people_are_told_to_come_back(pod: Pod) -> None:
    answer = await pod.people.get("/api/v1/auth/login")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "reasons/#moving" in answer.headers["Link"].lower()


@pytest.mark.parametrize("verb", ["look", "blocks", "receive", "take", "cancel", "pack", "another"])
async def test_only_the_operator_commands_a_pod(pod: Pod, verb: str) -> None:
    answer = await pod.people.post(f"/move/v1/{verb}", json={})
    assert answer.status_code == 401
    other = pod.pools.link("", EngineRef("tenant-acme", "dev", "e2"))
    assert (await pod.people.post(f"/move/v1/{verb}", headers=other.signed(), json={})).status_code == 401


async def test_a_pod_says_how_far_the_engine_is(pod: Pod, copied: Copied) -> None:
    link = pod.pools.link("", REF)
    assert (await link.look(), await link.blocks()) == ("Reserved", b"")

    async def blocks() -> AsyncIterator[bytes]:
        yield copied.archive.read_bytes()

    await link.receive(copied.packed._replace(blocks=blocks()))
    assert await link.look() == "Copied"
    assert await link.blocks() != b""
    await link.cancel()
    with pytest.raises(Halt, match="given up"):
        await link.take(copied.packed.token)


async def test_a_copy_that_was_cut_short_is_none(pod: Pod, copied: Copied) -> None:
    link = pod.pools.link("", REF)

    async def blocks() -> AsyncIterator[bytes]:
        whole = copied.archive.read_bytes()
        yield whole[: len(whole) // 2]

    with pytest.raises(Halt):
        await link.receive(copied.packed._replace(blocks=blocks()))
    assert await link.look() == "Reserved"
