"""Writes to the repositories of Sources that another process follows: by copies of its own, fetched when they are needed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from tenantry.kinds.source.spec import Source
from tenantry.model.resource import Ref
from tenantry.model.syncing import SyncOrder
from tenantry.model.verdicts import Halt, Transient
from tenantry.ports import Declarations
from tenantry.runtime.following.following import TENANT_READS, Repositories
from tenantry.runtime.sources.write_back import holding

MOST = 8
"""Copies that are kept although nobody uses them."""
TENANT_MOST = 2
"""Those of one tenant among them: others' are not displaced by its Sources, and it does not fill the disk."""
IDLE_S = 600.0
"""The time that an unused copy is kept."""
SWEEP_S = 60.0

log = structlog.get_logger(__name__)


class Clonable(Repositories, Protocol):
    """The store of the copies."""

    async def is_overgrown(self, order: SyncOrder) -> bool:
        """Return True if many fetches together brought more than is kept."""


@dataclass
class _Clone:
    """The copy of one Source. declarations: None while there is none; used: when it was last needed."""

    uid: str
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    order: SyncOrder | None = None
    declarations: Declarations | None = None
    used: float = 0.0


class SourceClones:
    """order_of: what a Source asks for now, it raises a Halt where nothing can be asked; ask: has the Source looked at soon."""

    def __init__(
        self,
        repositories: Clonable,
        order_of: Callable[[Source], Awaitable[SyncOrder]],
        ask: Callable[[Ref], Awaitable[None]],
        time: Callable[[], float],
        within_s: float,
    ) -> None:
        """time: in seconds; within_s: how long a write may wait for its turn."""
        self._repositories = repositories
        self._order_of = order_of
        self._ask = ask
        self._time = time
        self._within_s = within_s
        self._clones: dict[str, _Clone] = {}
        self._slots = asyncio.Semaphore(TENANT_READS)
        self._of_tenant: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def turn(self, source: Source) -> AsyncIterator[Declarations]:
        """See runtime.write_back.WriteBack. Another process may write at the same time: the remote decides who was first."""
        order = await self._order_of(source)
        clone = self._clones.setdefault(order.uid, _Clone(order.uid))
        async with holding(clone.turn, self._within_s), self._room(order.tenant):
            order = await self._order_of(source)  # others had their turn during the wait
            declarations = await self._opened(clone, order)
            try:
                yield declarations
            finally:
                await self._looked_at(source.ref)
                clone.used = self._time()
                if await self._repositories.is_overgrown(order):
                    await self._drop(clone)

    async def run(self) -> None:
        """Discards copies that nobody needs any more, without end."""
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.sweep()

    async def sweep(self) -> None:
        """Discards the copies that were not needed for a while."""
        unused = [each for each in self._idle() if self._time() - each.used >= IDLE_S]
        for clone in unused:
            async with clone.turn:
                if self._time() - clone.used >= IDLE_S:
                    await self._drop(clone)

    @asynccontextmanager
    async def _room(self, tenant: str) -> AsyncIterator[None]:
        """Those of tenants have but a share: one of each at a time, and not too many together."""
        if not tenant:
            yield
            return
        async with holding(self._of_tenant[tenant], self._within_s), holding(self._slots, self._within_s):
            yield

    async def _opened(self, clone: _Clone, order: SyncOrder) -> Declarations:
        if clone.declarations is not None and clone.order is not None and clone.order.settings == order.settings:
            return clone.declarations
        await self._make_room(order.tenant)
        opened = (await self._repositories.open(order)).declarations
        if opened is None:
            raise Halt(Transient("SourceNotWritten", f"source {order.owner} no longer takes writes: try again"))
        clone.order, clone.declarations = order, opened
        return opened

    async def _make_room(self, tenant: str) -> None:
        while tenant and len(own := [each for each in self._idle() if each.order and each.order.tenant == tenant]) >= TENANT_MOST:
            await self._drop_oldest(own)
        while len(idle := self._idle()) >= MOST:
            await self._drop_oldest(idle)

    async def _drop_oldest(self, idle: list[_Clone]) -> None:
        oldest = min(idle, key=lambda each: each.used)
        async with oldest.turn:
            await self._drop(oldest)

    def _idle(self) -> list[_Clone]:
        """Those that nobody uses now."""
        return [each for each in self._clones.values() if each.declarations is not None and not each.turn.locked()]

    async def _drop(self, clone: _Clone) -> None:
        """It is fetched anew when it is needed again. Its turn is held."""
        clone.order = clone.declarations = None
        await self._repositories.discard(clone.uid)

    async def _looked_at(self, source: Ref) -> None:
        """Request a look at the source. The write is durable: a failed request only delays its sight."""
        try:
            await self._ask(source)
        except Halt as halt:
            log.warning("the source was not asked to look", source=str(source), error=str(halt))
