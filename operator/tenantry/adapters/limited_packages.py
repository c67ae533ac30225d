"""Package bytes within what each tenant may store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from tenantry.model.facts import PackageFacts
from tenantry.model.quotas import PACKAGES, Quotas
from tenantry.packages.check import sha256_of
from tenantry.ports import Packages


class CountedPackages(Packages, Protocol):
    """Package bytes that can be counted."""

    async def sizes(self, tenant: str) -> Mapping[str, int]:
        """Bytes of each package that the tenant has, by sha256."""


class TenantLimits(Protocol):
    """The limits of tenants."""

    def of(self, tenant: str) -> Quotas:
        """The limits of the Tenant with that name."""

    def check(self, quota: str, tenant: str, limit: int | None, used: int, more: int) -> None:
        """Compare what a Tenant uses (bytes) with its limit. Raises QuotaReached."""


class LimitedPackages:
    """ports.Packages. Only a `put` for a tenant with a limit costs anything: its packages are listed, one put at a time."""

    def __init__(self, packages: CountedPackages, quotas: TenantLimits) -> None:
        self._packages = packages
        self._quotas = quotas
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        """Raises QuotaReached, and what the packages raise."""
        if self._quotas.of(tenant).package_storage is None:
            return await self._packages.put(tenant, package, checked)
        turn = self._turns.setdefault(tenant, asyncio.Lock())
        async with turn:
            await self.check(tenant, package, checked)
            return await self._packages.put(tenant, package, checked)

    async def check(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> None:
        """Raises QuotaReached where `put` would."""
        limit = self._quotas.of(tenant).package_storage
        if limit is None:
            return
        held = await self._packages.sizes(tenant)
        sha256 = checked.sha256 if checked else await asyncio.to_thread(sha256_of, package)
        more = 0 if sha256 in held else (await asyncio.to_thread(package.stat)).st_size
        self._quotas.check(PACKAGES, tenant, limit, sum(held.values()), more)

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self._packages.inspect(tenant, sha256)

    async def fetch(self, tenant: str, sha256: str) -> Path:
        return await self._packages.fetch(tenant, sha256)

    async def remove(self, tenant: str, sha256: str) -> None:
        await self._packages.remove(tenant, sha256)

    async def remove_all(self, tenant: str) -> None:
        await self._packages.remove_all(tenant)
