"""Packages that the platform fetches from where they are declared to be, and the apps that wait for them."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.model.resource import Held, Ref
from tenantry.packages.build import build
from tests.crash.campaign import URL
from tests.crash.story import object_
from tests.scenario.package_host import PackageHost, Send, cut, held, whole
from tests.scenario.packages.registry import Registry
from tests.scenario.serving import serving
from tests.support.foreign_engines import ACME, LOOPBACK, package_source
from tests.support.platform_of_folder import platform_of_folder
from tests.support.waiting import eventually

CRM = Ref("Package", ACME, "crm-1-0-0")
APP = Ref("App", ACME, "dev.crm")
FILE = "/crm.tapp"


class Declared:
    """The platform's source folder with a package at a host of others, and the app that wants it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder / "source"
        self.state = folder / "state"
        self.host = PackageHost()
        self.package = folder / "crm"
        package_source(self.package, "1.0.0")
        self._build()
        self.source = f"url: '{url}{FILE}?key=a-secret'"
        self.tenant = "{}"

    def grow(self, size: int) -> None:
        """Adds a file of so many bytes that no compression makes smaller."""
        (self.package / "content").mkdir(exist_ok=True)
        (self.package / "content" / "noise.bin").write_bytes(random.Random(1).randbytes(size))
        self._build()

    def _build(self) -> None:
        build(self.package, self.package.with_suffix(".tapp"))
        self.bytes = self.package.with_suffix(".tapp").read_bytes()
        self.sha256 = hashlib.sha256(self.bytes).hexdigest()

    def write(self) -> None:
        package = f"{{app: crm, version: 1.0.0, sha256: '{self.sha256}', source: {{{self.source}}}}}"
        parts = [
            object_("Region", "eu", "{}"),
            object_("Tenant", "acme", self.tenant),
            object_("Environment", "dev", "{region: eu}", "acme"),
            object_("App", "dev.crm", "{environment: dev, app: crm, version: 1.0.0}", "acme"),
        ]
        self.folder.mkdir(exist_ok=True)
        (self.folder / "platform.yaml").write_text("---".join([*parts, object_("Package", "crm-1-0-0", package, "acme")]))

    @asynccontextmanager
    async def platform(self) -> AsyncIterator[Platform]:
        """A platform of this source, started."""
        self.write()
        async with platform_of_folder(self.state, self.folder, LOOPBACK) as platform:
            yield platform


@pytest.fixture
async def declared(tmp_path: Path) -> AsyncIterator[Declared]:
    late: list[Declared] = []

    async def serve(scope: object, receive: object, send: object) -> None:
        await late[0].host.http(scope, receive, send)

    async with serving(serve) as url:
        late.append(Declared(tmp_path, url))
        yield late[0]


def told(platform: Platform, ref: Ref) -> tuple[str, str]:
    """Reason and message of its condition Ready."""
    resource = platform.state.cache.resource(ref)
    found = resource.status.condition("Ready") if resource is not None else None
    return (found.reason, found.message) if found else ("", "")


async def until(platform: Platform, ref: Ref, reason: str) -> str:
    """The message, once that is the reason."""
    await eventually(lambda: told(platform, ref)[0] == reason, shows=lambda: (told(platform, ref), told(platform, APP)))
    return told(platform, ref)[1]


def left(declared: Declared) -> list[Path]:
    return list((declared.state / "packages" / "_incoming").iterdir())


@pytest.mark.slow
async def test_an_app_is_installed_of_a_package_that_was_fetched(declared: Declared) -> None:
    declared.host.answers[FILE] = [whole(b"ouch", 500), cut(declared.bytes), whole(declared.bytes)]
    async with declared.platform() as platform:
        await platform.converged()
        assert told(platform, CRM)[0] == told(platform, APP)[0] == "Succeeded"
        assert declared.host.paths == [FILE] * 3
        assert left(declared) == []


async def test_an_app_is_installed_of_a_package_out_of_a_registry(declared: Declared) -> None:
    registry = Registry()
    digest = registry.push("team/crm", "1.0.0", declared.bytes)
    async with serving(registry.http) as url:
        declared.source = f"oci: '{url.removeprefix('http://')}/team/crm@{digest}'"
        async with declared.platform() as platform:
            await until(platform, APP, "Succeeded")


async def test_a_package_tells_that_it_is_being_fetched_and_keeps_nobody_waiting(declared: Declared) -> None:
    goes_on = asyncio.Event()
    declared.host.answers[FILE] = [held(declared.bytes, goes_on)]
    async with declared.platform() as platform:
        await until(platform, CRM, "PackageFetching")
        await until(platform, Ref("Environment", ACME, "dev"), "Succeeded")
        assert told(platform, CRM)[0] == "PackageFetching"
        goes_on.set()
        await until(platform, APP, "Succeeded")


async def test_other_bytes_stall_until_they_are_declared(declared: Declared) -> None:
    declared.host.answers[FILE] = [whole(b"something else"), whole(declared.bytes)]
    async with declared.platform() as platform:
        assert "sha256" in await until(platform, CRM, "PackageDiffers")
        assert declared.host.paths == [FILE]
        declared.source = declared.source.replace("a-secret", "another")
        declared.write()
        assert platform.source is not None
        await platform.source.sync()
        await until(platform, APP, "Succeeded")


@pytest.mark.slow
async def test_a_host_that_goes_on_failing_is_asked_less_and_less(declared: Declared) -> None:
    times: list[float] = []

    async def failing(send: Send) -> None:
        times.append(asyncio.get_running_loop().time())
        await whole(b"ouch", 500)(send)

    declared.host.answers[FILE] = [failing]
    async with declared.platform():
        await eventually(lambda: len(times) >= 4)
    # Pauses of 0.25, 0.5 and 1 s, by a fifth more or less.
    assert times[3] - times[2] >= 0.75


@pytest.mark.slow
async def test_a_package_beyond_the_tenants_limit_is_fetched_once_there_is_room(declared: Declared) -> None:
    declared.tenant = "{quota: {packageStorage: 1Ki}}"
    declared.grow(2048)
    declared.host.answers[FILE] = [whole(declared.bytes)]
    async with declared.platform() as platform:
        assert "quota.packageStorage of tenant acme is reached" in await until(platform, CRM, "QuotaReached")
        assert left(declared) == []
        declared.tenant = "{quota: {packageStorage: 1Gi}}"
        declared.write()
        assert platform.source is not None
        await platform.source.sync()
        await until(platform, APP, "Succeeded")


async def test_a_refused_address_is_told(declared: Declared) -> None:
    declared.source = "url: 'https://169.254.169.254/crm.tapp'"
    async with declared.platform() as platform:
        assert "169.254.169.254 is not a public address" in await until(platform, CRM, "FetchRefused")


async def test_a_platform_that_ends_while_it_fetches_fetches_anew(declared: Declared) -> None:
    declared.host.answers[FILE] = [held(declared.bytes, asyncio.Event()), whole(declared.bytes)]
    async with declared.platform() as platform:
        await until(platform, CRM, "PackageFetching")
        await eventually(lambda: declared.host.asked)
    assert left(declared) == []
    async with declared.platform() as platform:
        await until(platform, APP, "Succeeded")


async def test_a_package_that_goes_takes_its_fetch_along(declared: Declared) -> None:
    declared.host.answers[FILE] = [held(declared.bytes, asyncio.Event())]
    async with declared.platform() as platform:
        await until(platform, CRM, "PackageFetching")
        for ref in (APP, CRM):
            resource = platform.state.cache.resource(ref)
            assert resource is not None
            await platform.state.writing.delete(Held(ref, resource.metadata.uid, ""))
        await platform.runtime.idle(within=1.0)
        assert platform.state.cache.resource(CRM) is None
        assert left(declared) == []


async def test_a_plan_tells_what_would_be_fetched_and_asks_nobody(declared: Declared) -> None:
    declared.write()
    platform = await Platform.open(declared.state, URL, settings=LOOPBACK)
    try:
        planned = await platform.plan_source(declared.folder, "default")
    finally:
        await platform.close()
    lines = [str(step) for step in planned.steps]
    assert any("package crm-1-0-0: fetch from http://127.0.0.1" in line for line in lines), lines
    assert not any("a-secret" in line for line in lines if "fetch from" in line)
    assert declared.host.asked == []
