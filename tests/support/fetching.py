"""A fetcher of packages over a scripted transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

import pytest

from tenantry.adapters.blobs import Check, FolderBlobs
from tenantry.adapters.fetching.downloads import Downloads
from tenantry.adapters.fetching.fetcher import FetchLimits, PackageFetcher
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt
from tenantry.rest.outbound import Rules
from tests.scenario.package_host import PackageHost
from tests.scenario.serving import serving
from tests.support.patience import DEADLINE_S
from tests.support.served_packages import SHA256, check

LOOPBACK = Rules(http=True, networks=(ip_network("127.0.0.0/8"),))
LARGEST = 64 * 1024
FILE = "/crm.tapp"
CRM = Ref("Package", "tenant-acme", "crm")


@dataclass
class Fetched:
    """A fetcher over a folder, and the host that it fetches from."""

    url: str
    host: PackageHost
    folder: FolderBlobs
    fetcher: PackageFetcher
    ended: asyncio.Queue[Ref] = field(default_factory=asyncio.Queue)

    async def begin(self, url: str = "", package: Ref = CRM, tenant: str = "acme", sha256: str = SHA256) -> None:
        await self.fetcher.begin(package, tenant, sha256, url or f"{self.url}{FILE}")

    async def comes_to(self, url: str = "", sha256: str = SHA256) -> str:
        """The result of one fetch: a verdict's kind and reason, `Stored` when all went well."""
        await self.begin(url, sha256=sha256)
        await self.over()
        if await self.folder.inspect("acme", sha256) is not None:
            return "Stored"
        with pytest.raises(Halt) as halted:
            await self.begin(url, sha256=sha256)
        self.told = halted.value.verdict.message
        return f"{type(halted.value.verdict).__name__} {halted.value.verdict.reason}"

    async def over(self) -> Ref:
        async with asyncio.timeout(DEADLINE_S):
            return await self.ended.get()

    @property
    def left(self) -> list[str]:
        return [path.name for path in self.folder.incoming.iterdir()]


@asynccontextmanager
async def fetching(
    tmp_path: Path, rules: Rules = LOOPBACK, time_s: float = 10.0, check: Check = check, at_once: int = 4
) -> AsyncIterator[Fetched]:
    host, folder = PackageHost(), FolderBlobs(tmp_path / "packages", check)
    async with serving(host.http) as url:
        limits = FetchLimits(LARGEST, time_s, at_once)
        ended: asyncio.Queue[Ref] = asyncio.Queue()
        fetcher = PackageFetcher(folder, folder.incoming, Downloads(rules), limits, ended.put_nowait)
        yield Fetched(url, host, folder, fetcher, ended)
        await fetcher.aclose()
