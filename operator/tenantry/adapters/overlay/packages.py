"""What-if packages, fetches, sources and logs: real bytes are read, new ones go into a folder of the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tenantry.model.facts import PackageFacts
from tenantry.model.resource import Ref
from tenantry.model.syncing import Followed, SyncOrder
from tenantry.model.verdicts import NotFound
from tenantry.ports import Packages


class OverlayPackages:
    """ports.Packages: writes go to `scratch`, which the plan throws away."""

    def __init__(self, real: Packages, scratch: Packages) -> None:
        self._real = real
        self._scratch = scratch

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self._scratch.inspect(tenant, sha256) or await self._real.inspect(tenant, sha256)

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        return await self._scratch.put(tenant, package, checked)

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
    """ports.Fetcher: a plan tells what would be fetched, and asks nobody for it."""

    async def begin(self, package: Ref, tenant: str, sha256: str, location: str) -> None:
        return

    async def cancel(self, tenant: str, sha256: str) -> None:
        return


class PlannedSources:
    """ports.Sources: a plan tells which repositories would be followed, asks nobody for them, and takes all to be applied.

    owned: how many objects are really the Source's.
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
        return ()  # of what a plan changes every object is told by itself

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
