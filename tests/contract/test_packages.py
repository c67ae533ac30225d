"""Package bytes and logs: one suite for the folder, an object store, and the api through which the operator reaches them.

Packages of a plan are in the suite as well; a plan keeps no logs.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from obstore.store import MemoryStore

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.blobs_http import RemoteBlobs, RemoteLogs
from tenantry.adapters.blobs_object import YOUNG, ObjectBlobs
from tenantry.adapters.fetched import KEPT
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.logs import BlobLogs
from tenantry.adapters.overlay.scratch import ScratchPackages
from tenantry.model.verdicts import Halt, Invalid, NotFound, Unauthorized
from tenantry.ports import OperationLogs, Packages
from tenantry.rest.blobs import AUDIENCE, PACKAGES
from tests.support.served_packages import BYTES, SHA256, check, served


class Kept(NamedTuple):
    """One way to the same things."""

    packages: Packages
    logs: OperationLogs


HOSTS = ("folder", "object store", "api")


@asynccontextmanager
async def kept_by(host: str, folder: Path) -> AsyncIterator[Kept]:
    """Packages and logs of a host."""
    if host == "folder":
        blobs = FolderBlobs(folder / "packages", check)
        yield Kept(blobs, BlobLogs(blobs))
    elif host == "object store":
        objects = ObjectBlobs(MemoryStore(), folder / "scratch", check)
        yield Kept(objects, BlobLogs(objects))
    else:
        app, keys = served(folder)
        scratch = folder / "scratch"
        scratch.mkdir()
        remote = RemoteBlobs("http://api", keys, scratch, httpx.ASGITransport(app=app))
        yield Kept(remote, RemoteLogs(remote))
        await remote.aclose()


@pytest.fixture(params=[*HOSTS, "plan"])
async def packages(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Packages]:
    if request.param == "plan":
        yield (scratch := ScratchPackages(check))
        await scratch.close()
    else:
        async with kept_by(request.param, tmp_path) as kept:
            yield kept.packages


@pytest.fixture(params=HOSTS)
async def logs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OperationLogs]:
    async with kept_by(request.param, tmp_path) as kept:
        yield kept.logs


def package(folder: Path, data: bytes = BYTES) -> Path:
    path = folder / "given.tapp"
    path.write_bytes(data)
    return path


async def test_what_is_put_is_told_and_fetched(packages: Packages, tmp_path: Path) -> None:
    facts = await packages.put("acme", package(tmp_path))
    assert (facts.app, facts.sha256, facts.size, facts.roles) == ("crm", SHA256, len(BYTES), ("reader",))
    assert await packages.inspect("acme", SHA256) == facts
    assert (await packages.fetch("acme", SHA256)).read_bytes() == BYTES


async def test_it_is_the_tenants_alone(packages: Packages, tmp_path: Path) -> None:
    await packages.put("acme", package(tmp_path))
    for tenant in ("umbra", ""):
        assert await packages.inspect(tenant, SHA256) is None
        with pytest.raises(NotFound):
            await packages.fetch(tenant, SHA256)


async def test_what_all_share(packages: Packages, tmp_path: Path) -> None:
    await packages.put("", package(tmp_path))
    assert await packages.inspect("", SHA256) is not None


async def test_a_refused_package_names_field_and_reason(packages: Packages, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"app\.yaml: is missing"):
        await packages.put("acme", package(tmp_path, b"bad"))


async def test_what_is_removed_is_gone_and_may_be_removed_again(packages: Packages, tmp_path: Path) -> None:
    await packages.put("acme", package(tmp_path))
    await packages.fetch("acme", SHA256)
    await packages.remove("acme", SHA256)
    await packages.remove("acme", SHA256)
    with pytest.raises(NotFound):
        await packages.fetch("acme", SHA256)


async def test_all_of_a_tenants_packages_are_removed_and_nobody_elses(packages: Packages, tmp_path: Path) -> None:
    for tenant in ("acme", "umbra", ""):
        await packages.put(tenant, package(tmp_path))
    other = await packages.put("acme", package(tmp_path, b"other bytes"))
    await packages.remove_all("acme")
    await packages.remove_all("acme")
    held = {tenant: await packages.inspect(tenant, SHA256) is not None for tenant in ("acme", "umbra", "")}
    assert held == {"acme": False, "umbra": True, "": True}
    assert await packages.inspect("acme", other.sha256) is None
    with pytest.raises(NotFound):
        await packages.fetch("acme", other.sha256)


async def test_a_plan_makes_a_folder_when_it_stores_something_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    scratch = ScratchPackages(check)
    assert await scratch.inspect("acme", SHA256) is None
    with pytest.raises(NotFound):
        await scratch.fetch("acme", SHA256)
    await scratch.remove("acme", SHA256)
    await scratch.remove_all("acme")
    assert not [*folder.iterdir()]
    await scratch.put("acme", package(tmp_path))
    assert [*folder.iterdir()]
    await scratch.close()
    assert not [*folder.iterdir()]


async def test_a_log_begins_with_what_the_status_carried(logs: OperationLogs) -> None:
    assert await logs.read("op-1") is None
    await logs.append("op-1", "first\n", "second\n")
    await logs.append("op-1", "unheeded\n", "third\n")
    assert await logs.read("op-1") == "first\nsecond\nthird\n"
    await logs.remove("op-1")
    await logs.remove("op-1")
    assert await logs.read("op-1") is None


async def test_bytes_that_nobody_holds_are_removed_once_they_are_old(tmp_path: Path) -> None:
    moment = [datetime.now(UTC)]
    objects = ObjectBlobs(MemoryStore(), tmp_path / "scratch", check, now=lambda: moment[0])
    await objects.put("acme", package(tmp_path))
    await objects.put("umbra", package(tmp_path))
    await objects.remove("acme", SHA256)
    moment[0] += 2 * YOUNG
    assert await objects.sweep() == 0
    await objects.remove("umbra", SHA256)
    moment[0] -= 2 * YOUNG
    assert await objects.sweep() == 0
    moment[0] += 2 * YOUNG
    assert (await objects.sweep(), await objects.sweep()) == (1, 0)
    await objects.put("acme", package(tmp_path))
    assert (await objects.fetch("acme", SHA256)).read_bytes() == BYTES


@pytest.mark.parametrize("audience", ["", "tenantry", "engine:1"])
async def test_no_other_token_opens_the_api(tmp_path: Path, audience: str) -> None:
    app, keys = served(tmp_path)
    headers = {"Authorization": f"Bearer {keys.sign({'sub': 'x', 'aud': audience}, timedelta(minutes=1))}"} if audience else {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://api", headers=headers) as client:
        answer = await client.get(f"{PACKAGES}/acme/{SHA256}/facts")
    assert (answer.status_code, set(answer.json())) == (401, {"error"})
    with pytest.raises(Unauthorized):
        keys.verify("", AUDIENCE)


async def test_an_api_that_is_away_is_waited_for(tmp_path: Path) -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    remote = RemoteBlobs("http://api", KeyRing(tmp_path / "keys", "tenantry"), tmp_path, httpx.MockTransport(away))
    with pytest.raises(Halt, match="connection refused") as halt:
        await remote.inspect("acme", SHA256)
    assert halt.value.verdict.reason == "ApiUnreachable"


async def test_only_so_many_fetched_packages_are_kept(tmp_path: Path) -> None:
    app, keys = served(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    remote = RemoteBlobs("http://api", keys, scratch, httpx.ASGITransport(app=app))
    for number in range(KEPT + 3):
        facts = await remote.put("acme", package(tmp_path, b"package %d" % number))
        await remote.fetch("acme", facts.sha256)
    assert len(list(scratch.iterdir())) == KEPT
