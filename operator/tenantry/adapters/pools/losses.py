"""The engines in pools whose data vanished or came back. A pool finds out by itself, and the operator asks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from tenantry.adapters.pools.client import Pools
from tenantry.model.facts import EngineRef
from tenantry.model.verdicts import Halt

PAUSE_S = 5.0


class PoolLosses:
    """Asks pools again and again. ids: of the pools that exist."""

    def __init__(self, pools: Pools, ids: Callable[[], Iterable[str]], pause_s: float = PAUSE_S) -> None:
        self._pools = pools
        self._ids = ids
        self._pause_s = pause_s
        self._known: dict[str, Mapping[EngineRef, str]] = {}

    async def changes(self) -> AsyncIterator[EngineRef]:
        """Yield each engine whose data vanished, or came back. Without end."""
        while True:
            for pool in sorted(self._ids()):
                for ref in await self._changed(pool):
                    yield ref
            await asyncio.sleep(self._pause_s)

    async def _changed(self, pool: str) -> list[EngineRef]:
        """A pool that does not answer, or is of a release before this one, is asked again later."""
        try:
            found = await self._pools.losses(pool)
        except Halt:
            return []
        before, self._known[pool] = self._known.get(pool, {}), found
        return [ref for ref in {**before, **found} if before.get(ref) != found.get(ref)]
