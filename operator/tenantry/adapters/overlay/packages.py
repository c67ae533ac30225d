"""What-if packages, fetches, sources and logs: real bytes are read, new ones go into a folder of the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tenantry.model.facts import PackageFacts
from tenantry.model.resource import Ref
from tenantry.model.syncing import Followed, SyncOrder
from tenantry.model.verdicts import Invalid, NotFound
from tenantry.packages.check import sha256_of
from tenantry.ports import Packages

Check = Callable[[str, Path, PackageFacts | None], Awaitable[None]]
"""Raises what a real `put` of the tenant would be refused with."""


async def unlimited(tenant: str, package: Path, checked: PackageFacts | None) -> None:
    """Of packages that nothing but the disk limits."""


class OverlayPackages:
    """ports.Packages: writes go to `scratch`, which the plan throws away."""

    def __init__(self, real: Packages, scratch: Packages, check: Check = unlimited) -> None:
        self._real = real
        self._scratch = scratch
        self._check = check

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self._scratch.inspect(tenant, sha256) or await self._real.inspect(tenant, sha256)

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        await self._check(tenant, package, checked)
        try:
            return await self._scratch.put(tenant, package, checked)
        except Invalid:
            # What is stored may come again, whatever a newer rule says of it.
            known = await self._real.inspect(tenant, await asyncio.to_thread(sha256_of, package))
            if known is None:
                raise
            return known

    async def fetch(self, tenant: str, sha256: str) -> Path:
        try:
            return await self._scratch.fetch(tenant, sha256)
        except NotFound:
            return await self._real.fetch(tenant, sha256)

    async def remove(self, tenant: str, sha256: str) -> None:
        await self._scratch.remove(tenant, sha256)

    async def remove_all(self, tenant: str) -> None:
        await self._scratch.remove_all(tenant)


class NoFetches:
    """ports.Fetcher of a plan: it shows the fetches and makes none."""

    async def begin(self, package: Ref, tenant: str, sha256: str, location: str) -> None:
        return

    async def cancel(self, tenant: str, sha256: str) -> None:
        return


class PlannedSources:
    """ports.Sources of a plan: it shows the repositories, reads none, and treats all as applied.

    owned: the real number of the Source's objects.
    """

    def __init__(self, owned: Callable[[Ref], int] = lambda source: 0) -> None:
        self._owned = owned
        self._followed: dict[Ref, Followed] = {}
        self._left: set[Ref] = set()

    def look(self, source: Ref, uid: str) -> Followed | None:
        followed = self._followed.get(source)
        return followed if followed is not None and followed.order.uid == uid else None

    def owned(self, source: Ref) -> int:
        return 0 if source in self._left else self._owned(source)

    def unready(self, source: Ref) -> tuple[str, ...]:
        return ()  # a plan reports each object that changes on its own

    async def follow(self, order: SyncOrder) -> None:
        self._followed[order.source] = Followed(order)

    async def stop(self, source: Ref, uid: str) -> None:
        self._followed.pop(source, None)

    async def leave(self, order: SyncOrder, prune: bool) -> None:
        self._left.add(order.source)


class NoLogs:
    """ports.OperationLogs: a plan leaves none."""

    async def append(self, operation: str, before: str, added: str) -> None:
        return

    async def read(self, operation: str) -> str | None:
        return None

    async def remove(self, operation: str) -> None:
        return
