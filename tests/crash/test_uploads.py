"""Uploads that are cut off, meet a full disk, or come twenty at once: nothing partial is ever visible, and nothing is left."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.blobs import FolderBlobs
from tenantry.packages.check import inspect
from tenantry.rest import uploads
from tenantry.rest.disk import writing_to_disk
from tests.campaigns.tried import Tried
from tests.scenario.cli import serving as process
from tests.support.patience import DEADLINE_S
from tests.support.upload_world import API, World, form, packed, world
from tests.support.waiting import eventually

__all__ = ["world"]

OFFSETS = 40
AT_ONCE = 20


async def _until_empty(world: World) -> None:
    await eventually(lambda: not world.left(), shows=world.left)


def _offsets(size: int) -> list[int]:
    """Spread over the body, and at its seams."""
    return sorted(
        {*(size * n // (OFFSETS - 8) for n in range(OFFSETS - 8)), 1, 4, 60, 73, size - 1, size - 5, size - 7, size - 8}
    )


async def _cut(world: World, offset: int, body: bytes) -> None:
    port = int(world.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"POST {API}/upload HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in world.typed.items())])
    writer.write(f"{head}\r\n\r\n".encode() + body[:offset])
    await writer.drain()
    await asyncio.sleep(0.002)
    writer.transport.abort()


@pytest.mark.slow
async def test_a_client_that_goes_away_at_any_offset_leaves_nothing(world: World, tried: Tried) -> None:
    offsets = _offsets(len(world.body))
    assert len(offsets) >= OFFSETS - 1
    for offset in offsets:
        await _cut(world, offset, world.body)
        assert await world.engine.apps() == (), f"cut at {offset}"
        await _until_empty(world)
        tried()
    assert (await world.upload()).status_code == 200
    assert [app.versions for app in await world.engine.apps()] == [("1.0.0",)]


@pytest.mark.slow
async def test_a_body_that_ends_at_any_offset_is_refused_and_leaves_nothing(world: World, tried: Tried) -> None:
    """The client is well-behaved, and its file is cut: nothing of it may count."""
    async with httpx.AsyncClient(base_url=world.url) as client:
        for offset in _offsets(len(world.package)):
            for body in (world.body[:offset], form(world.package[:offset])):
                answer = await client.post(f"{API}/upload", content=body, headers=world.typed)
                assert (answer.status_code, await world.engine.apps()) == (400, ()), f"cut at {offset}"
                tried()
        await _until_empty(world)


@pytest.mark.slow
async def test_the_same_package_twenty_times_at_once_is_stored_once(world: World, tried: Tried) -> None:
    answers = await asyncio.gather(*(world.upload() for _ in range(AT_ONCE)))
    assert [one.status_code for one in answers] == [200] * AT_ONCE
    assert [app.versions for app in await world.engine.apps()] == [("1.0.0",)]
    name = f"{hashlib.sha256(world.package).hexdigest()}.tapp"
    assert world.left() == {name}
    tried(len(answers))


@contextmanager
def full_disk(at: int) -> Iterator[list[str]]:
    """The `at`-th call that needs the disk fails, and every one after it. Yields what was called."""
    called: list[str] = []
    doomed: list[tuple[Any, str]] = [
        (tempfile, "mkstemp"), (uploads, "write_whole"), (shutil, "copyfile"),
        (os, "fsync"), (Path, "rename"), (Path, "replace"), (Path, "hardlink_to"),
    ]  # fmt: skip
    kept = [(where, name, getattr(where, name)) for where, name in doomed]

    def failing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            called.append(name)
            if len(called) < at:
                return real(*args, **options)
            if name != "write_whole":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with writing_to_disk():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call

    for where, name, real in kept:
        setattr(where, name, failing(name, real))
    try:
        yield called
    finally:
        for where, name, real in kept:
            setattr(where, name, real)


@pytest.mark.slow
async def test_a_disk_that_is_full_at_any_call_is_503_and_keeps_nothing(world: World, tried: Tried) -> None:
    struck: set[str] = set()
    for at in range(1, 100):
        with full_disk(at) as called:
            answer = await world.upload()
        if len(called) < at:
            break
        struck.add(called[at - 1])
        assert (answer.status_code, "No space left" in answer.json()["error"]) == (503, True), (at, called)
        assert await world.engine.apps() == ()
        await world.engine._opener.sweep()
        assert world.left() == set(), (at, called)
        tried()
    assert (answer.status_code, struck) == (200, {"mkstemp", "write_whole", "copyfile", "fsync", "replace"})
    assert [app.versions for app in await world.engine.apps()] == [("1.0.0",)]


async def test_the_platforms_store_has_all_or_nothing_of_a_package_that_the_full_disk_refused(
    tmp_path: Path, tried: Tried
) -> None:
    sha256 = hashlib.sha256(packed(tmp_path)).hexdigest()
    blobs = FolderBlobs(tmp_path / "packages", inspect)
    for at in range(1, 100):
        with full_disk(at) as called:
            refused = await asyncio.gather(blobs.put("acme", tmp_path / "crm.tapp"), return_exceptions=True)
        if len(called) < at:
            break
        assert "No space left" in str(refused[0]), (at, called)
        whole = await FolderBlobs(tmp_path / "packages", inspect).inspect("acme", sha256)
        left = [path for path in (tmp_path / "packages").rglob("*") if path.is_file()]
        # The last call is that which makes the name durable: it is there, and of the whole package.
        assert (whole is None and left == []) or (called[-1] == "fsync" and len(left) == 2), (at, called)
        await blobs.remove("acme", sha256)
        tried()
    assert await blobs.inspect("acme", sha256) is not None


async def test_the_platforms_store_takes_the_same_package_twenty_times_at_once(tmp_path: Path, tried: Tried) -> None:
    package = packed(tmp_path)
    blobs = FolderBlobs(tmp_path / "packages", inspect)
    facts = await asyncio.gather(*(blobs.put(f"tenant{n % 5}", tmp_path / "crm.tapp") for n in range(AT_ONCE)))
    assert {one.sha256 for one in facts} == {hashlib.sha256(package).hexdigest()}
    files = [path for path in (tmp_path / "packages").rglob("*") if path.is_file()]
    assert (len(files), len({path.stat().st_ino for path in files})) == (6, 1)
    tried(len(facts))


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9, 0.999, 1.0])
def test_an_engine_that_is_killed_during_an_upload_has_all_of_it_or_nothing(tmp_path: Path, part: float, tried: Tried) -> None:
    package = packed(tmp_path, 8 << 20)
    body, password = form(package), tmp_path / "data" / "admin-password"
    arguments = ("engine", "--data", tmp_path / "data", "--listen", "127.0.0.1:0")

    def pieces() -> Iterator[bytes]:
        yield body[: int(len(body) * part)]
        running.process.kill()
        yield body[int(len(body) * part) :]

    with process(*arguments, cwd=tmp_path) as running:
        headers = {"Content-Type": "multipart/form-data; boundary=B", "Content-Length": str(len(body))}
        with pytest.raises(httpx.TransportError):
            auth = ("admin", password.read_text().strip())
            httpx.post(f"{running.url}{API}/upload", content=pieces(), headers=headers, auth=auth, timeout=DEADLINE_S)
        running.process.wait(DEADLINE_S)
    with process(*arguments, cwd=tmp_path) as running:
        auth = ("admin", password.read_text().strip())
        told = [one["availableVersions"] for one in httpx.get(f"{running.url}{API}", auth=auth).json()["data"]]
        stored = [path for path in (tmp_path / "data" / "packages").glob("*") if path.is_file()]
        assert (told, [path.read_bytes() == package for path in stored]) in (([], []), (["1.0.0"], [True]))
        assert list((tmp_path / "data" / "incoming").iterdir()) == []
        with tempfile.TemporaryFile() as again:
            again.write(package)
            again.seek(0)
            answer = httpx.post(f"{running.url}{API}/upload", files={"file": ("crm.tapp", again)}, auth=auth, timeout=DEADLINE_S)
        assert answer.status_code == 200
    tried()
