"""The share of an operator in the work: everything for the holder of the Lease, or the shards that each replica holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.lease import Lease
from tenantry.adapters.kubernetes.shared_lease import SharedLease
from tenantry.hosts.kopf_host import KopfHost
from tenantry.hosts.shared_work import Background, Fetches, SharedWork
from tenantry.hosts.supervision import supervised
from tenantry.hosts.telling import tell_objects
from tenantry.model.sharding.shards import PLATFORM, HeldShards, Owns, owns_all
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.loop import Runtime


@dataclass(frozen=True)
class ActingParts:
    """The parts of an operator that acts. background, prepare: as of SharedWork."""

    host: KopfHost
    runtime: Runtime
    cache: Cache
    fetches: Fetches
    background: Background
    prepare: Callable[[], Awaitable[None]]


class ShareOfWork(Protocol):
    """The part of this process in the work."""

    @property
    def owns(self) -> Owns:
        """The test whether an object is this process's now."""

    def others_looked(self) -> bool:
        """Return True if every object of other processes had a pass."""

    @property
    def held(self) -> frozenset[int]:
        """The shards on which this process acts."""

    @property
    def count(self) -> int:
        """The number of shards in effect."""

    def check(self) -> None:
        """Raise a Transient Halt (LeaseNotRenewed) if another process may act now."""

    async def act(self, parts: ActingParts) -> None:
        """Wait for work, and do it without end. Raises LeaseLost, Halt."""

    async def leave(self) -> None:
        """Let others act at once. Nothing of this process's work may be under way."""


class LeasePlace(NamedTuple):
    """The namespace and the name of the Lease, and the name by which this process has it."""

    namespace: str
    name: str
    holder: str


def share_of_work(client: Client, place: LeasePlace, shards: int, release: str) -> ShareOfWork:
    """Return the share of a process that wants so many shards; with one, the holder of the Lease does everything."""
    if shards == 1:
        return ActingAlone(Lease(client, *place))
    namespace, name, holder = place
    return ActingForShards(SharedLease(client, (namespace, name), holder, wants=shards, release=release, held=HeldShards()))


class ActingAlone:
    """While it holds the Lease, it acts on everything."""

    count = 1
    owns = staticmethod(owns_all)

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.check = lease.check

    def others_looked(self) -> bool:
        return True

    @property
    def held(self) -> frozenset[int]:
        return frozenset({PLATFORM}) if self._lease.held else frozenset()

    async def act(self, parts: ActingParts) -> None:
        await self._lease.acquire()
        await parts.prepare()
        parts.host.lead()
        async with _told(parts.cache), supervised() as supervisor:
            for works in parts.background:
                for name, work in works.items():
                    supervisor.run(work, name)
            await self._lease.keep()

    async def leave(self) -> None:
        await self._lease.release()


class ActingForShards:
    """It acts on the shards that it holds."""

    def __init__(self, lease: SharedLease) -> None:
        self._lease = lease
        self.owns = lease.held
        self.others_looked = lease.others_looked
        self.check = lease.check

    @property
    def held(self) -> frozenset[int]:
        return self.owns.held

    @property
    def count(self) -> int:
        return self._lease.ledger.count

    async def act(self, parts: ActingParts) -> None:
        await self._lease.join()
        parts.host.lead()
        work = SharedWork(parts.runtime, parts.fetches, self.owns, parts.background, parts.prepare)
        try:
            async with _told(parts.cache, self.owns):
                await self._lease.keep(work)
        finally:
            await work.stop()

    async def leave(self) -> None:
        await self._lease.leave()


@asynccontextmanager
async def _told(cache: Cache, owns: Owns = owns_all) -> AsyncIterator[None]:
    """Log the events of objects until the end of the block."""
    unlisten = tell_objects(cache, owns)
    try:
        yield
    finally:
        unlisten()
