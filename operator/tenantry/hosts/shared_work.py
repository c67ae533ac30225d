"""The work of one of several operators: passes, fetches and background work for the shards that it holds now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from tenantry.hosts.supervision import Supervisor, Works
from tenantry.model.sharding.shards import PLATFORM, HeldShards, Owns
from tenantry.runtime.reconcile.loop import Runtime


class Fetches(Protocol):
    """Fetches beside the passes."""

    async def hand_over(self, covers: Owns) -> None:
        """End those for these objects, which are another process's from now on."""


class Background(NamedTuple):
    """Background work by how it goes by the shards. everywhere: asks for itself which objects are its own; by_shards: begins anew
    when the shards change; platform: runs where the platform's shard is."""

    everywhere: Works
    by_shards: Works
    platform: Works


class SharedWork:
    """Gives and takes shards. One call at a time. prepare: called before the platform's shard is taken."""

    def __init__(
        self,
        runtime: Runtime,
        fetches: Fetches,
        held: HeldShards,
        background: Background,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self._runtime = runtime
        self._fetches = fetches
        self._held = held
        self._background = background
        self._prepare = prepare
        self._everywhere, self._by_shards, self._platform = Supervisor(), Supervisor(), Supervisor()
        self._began = False

    @property
    def looked(self) -> bool:
        """Return True if every object of the held shards had a pass."""
        return self._runtime.looked

    async def give(self, shards: frozenset[int]) -> None:
        """End the work on shards that are no longer held. Nothing of it is under way when the call returns."""
        await self._by_shards.stop()
        if PLATFORM in shards:
            await self._platform.stop()
        given = self._held.among(shards)
        await self._runtime.hand_over(given)
        await self._fetches.hand_over(given)
        if self._held.held:
            _run(self._by_shards, self._background.by_shards)

    async def take(self, shards: frozenset[int]) -> None:
        """Begin the work on shards that are held from now on. Raises what `prepare` raises."""
        await self._by_shards.stop()
        if PLATFORM in shards:
            await self._prepare()
            _run(self._platform, self._background.platform)
        self._runtime.take_over(self._held.among(shards))
        _run(self._by_shards, self._background.by_shards)
        if not self._began:
            self._began = True
            _run(self._everywhere, self._background.everywhere)

    async def stop(self) -> None:
        """End the background work."""
        for supervisor in (self._by_shards, self._platform, self._everywhere):
            await supervisor.stop()


def _run(supervisor: Supervisor, works: Works) -> None:
    for name, work in works.items():
        supervisor.run(work, name)
