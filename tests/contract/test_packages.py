"""Package bytes and logs: one suite for the folder, and for the api through which the operator reaches it."""

from __future__ import annotations

from collections.abc import AsyncIterator
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
from tenantry.model.verdicts import Halt, Invalid, NotFound, Unauthorized
from tenantry.ports import OperationLogs, Packages
from tenantry.rest.blobs import AUDIENCE, PACKAGES
from tests.support.served_packages import BYTES, SHA256, check, served


class Kept(NamedTuple):
    """One way to the same things."""

    packages: Packages
    logs: OperationLogs


@pytest.fixture(params=["folder", "object store", "api"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    if request.param == "folder":
        folder = FolderBlobs(tmp_path / "packages", check)
        yield Kept(folder, BlobLogs(folder))
        return
    if request.param == "object store":
        objects = ObjectBlobs(MemoryStore(), tmp_path / "scratch", check)
        yield Kept(objects, BlobLogs(objects))
        return
    app, keys = served(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    remote = RemoteBlobs("http://api", keys, scratch, httpx.ASGITransport(app=app))
    yield Kept(remote, RemoteLogs(remote))
    await remote.aclose()


def package(folder: Path, data: bytes = BYTES) -> Path:
    path = folder / "given.tapp"
    path.write_bytes(data)
    return path


async def test_what_is_put_is_told_and_fetched(kept: Kept, tmp_path: Path) -> None:
    facts = await kept.packages.put("acme", package(tmp_path))
    assert (facts.app, facts.sha256, facts.size, facts.roles) == ("crm", SHA256, len(BYTES), ("reader",))
    assert await kept.packages.inspect("acme", SHA256) == facts
    assert (await kept.packages.fetch("acme", SHA256)).read_bytes() == BYTES


async def test_it_is_the_tenants_alone(kept: Kept, tmp_path: Path) -> None:
    await kept.packages.put("acme", package(tmp_path))
    for tenant in ("umbra", ""):
        assert await kept.packages.inspect(tenant, SHA256) is None
        with pytest.raises(NotFound):
            await kept.packages.fetch(tenant, SHA256)


async def test_what_all_share(kept: Kept, tmp_path: Path) -> None:
    await kept.packages.put("", package(tmp_path))
    assert await kept.packages.inspect("", SHA256) is not None


async def test_a_refused_package_names_field_and_reason(kept: Kept, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"app\.yaml: is missing"):
        await kept.packages.put("acme", package(tmp_path, b"bad"))


async def test_what_is_removed_is_gone_and_may_be_removed_again(kept: Kept, tmp_path: Path) -> None:
    await kept.packages.put("acme", package(tmp_path))
    await kept.packages.fetch("acme", SHA256)
    await kept.packages.remove("acme", SHA256)
    await kept.packages.remove("acme", SHA256)
    with pytest.raises(NotFound):
        await kept.packages.fetch("acme", SHA256)


async def test_all_of_a_tenants_packages_are_removed_and_nobody_elses(kept: Kept, tmp_path: Path) -> None:
    for tenant in ("acme", "umbra", ""):
        await kept.packages.put(tenant, package(tmp_path))
    other = await kept.packages.put("acme", package(tmp_path, b"other bytes"))
    await kept.packages.remove_all("acme")
    await kept.packages.remove_all("acme")
    held = {tenant: await kept.packages.inspect(tenant, SHA256) is not None for tenant in ("acme", "umbra", "")}
    assert held == {"acme": False, "umbra": True, "": True}
    assert await kept.packages.inspect("acme", other.sha256) is None
    with pytest.raises(NotFound):
        await kept.packages.fetch("acme", other.sha256)


async def test_a_log_begins_with_what_the_status_carried(kept: Kept) -> None:
    assert await kept.logs.read("op-1") is None
    await kept.logs.append("op-1", "first\n", "second\n")
    await kept.logs.append("op-1", "unheeded\n", "third\n")
    assert await kept.logs.read("op-1") == "first\nsecond\nthird\n"
    await kept.logs.remove("op-1")
    await kept.logs.remove("op-1")
    assert await kept.logs.read("op-1") is None


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
