"""The engines in pools whose data vanished or came back. A pool finds out by itself, and the operator asks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import NamedTuple

from tenantry.adapters.pools.client import Pools
from tenantry.model.facts import EngineRef
from tenantry.model.verdicts import Halt

PAUSE_S = 5.0


class Missing(NamedTuple):
    """An engine, and what of its data is gone."""

    ref: EngineRef
    told: str


class PoolLosses:
    """Asks pools again and again. ids: of the pools that exist."""

    def __init__(self, pools: Pools, ids: Callable[[], Iterable[str]], pause_s: float = PAUSE_S) -> None:
        self._pools = pools
        self._ids = ids
        self._pause_s = pause_s
        self._known: dict[str, dict[str, Missing]] = {}

    def note(self, pool: str, ref: EngineRef, missing: str) -> None:
        """Take note of a loss that a pass saw: its end is a change, also where it came and went between two questions."""
        self._known.setdefault(pool, {})[ref.id] = Missing(ref, missing)

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
            losses = await self._pools.losses(pool)
        except Halt:
            return []
        found = {ref.id: Missing(ref, told) for ref, told in losses.items()}
        before, self._known[pool] = self._known.get(pool, {}), found
        return [each.ref for id_, each in {**before, **found}.items() if _told(before, id_) != _told(found, id_)]


def _told(known: Mapping[str, Missing], id_: str) -> str:
    return known[id_].told if id_ in known else ""
