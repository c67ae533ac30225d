"""Engines of a host that no Environment has, counted for its numbers: nobody runs `check` every day."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from tenantry.kinds.environment.orphaned import HeldEngine
from tenantry.kinds.environment.spec import Environment
from tenantry.model.resource import Ref
from tenantry.runtime.cache import Cache

PAUSE_S = 600.0
"""Seconds between two counts."""

log = structlog.get_logger(__name__)


class LeftEngines:
    """Counts them again and again. The cache has to be complete by the first time."""

    def __init__(self, held: Callable[[], Awaitable[Sequence[HeldEngine]]], cache: Cache) -> None:
        """held: returns the engines of the host. Raises Halt."""
        self._held = held
        self._cache = cache
        self.count = 0

    async def run(self) -> None:
        """Count without end. Raises what `held` raises."""
        while True:
            await self.look()
            await asyncio.sleep(PAUSE_S)

    async def look(self) -> None:
        """Count once. A new count is logged with the way to their names, which are not in the log of everybody."""
        held = await self._held()  # first: an engine that is made now has its Environment already
        count = sum(not self._has_environment(each) for each in held)
        if count != self.count:
            log.warning("engines have no Environment: `tenantry check` names them", engines=count)
        self.count = count

    def _has_environment(self, engine: HeldEngine) -> bool:
        """Return True for an Environment of that name and id. By the index: thousands are not parsed at once."""
        entry = self._cache.entry(Ref(Environment.KIND, engine.namespace, engine.name))
        return entry is not None and f"id={engine.id}" in entry.keys
