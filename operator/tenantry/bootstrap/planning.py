"""The copies that plans work on: overlays of a host's own ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from tenantry.adapters.limited_packages import LimitedPackages
from tenantry.adapters.overlay.deployer import OverlayDeployer
from tenantry.adapters.overlay.engines import OverlayEngines
from tenantry.adapters.overlay.packages import NoFetches, NoLogs, OverlayPackages, PlannedSources, unlimited
from tenantry.adapters.overlay.scratch import ScratchPackages
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.tenancy import EmbeddedTenancy
from tenantry.bootstrap.packages import Checking
from tenantry.bootstrap.pass_ports import Ports
from tenantry.kinds.admission import Admission
from tenantry.ports import Engines, Packages
from tenantry.runtime.cache import Cache
from tenantry.runtime.clock import now
from tenantry.runtime.pace import Pace
from tenantry.runtime.planning.plan import WhatIf
from tenantry.runtime.planning.planner import Bodies, PlannedPackages, Scene
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.holding import holding


@dataclass(frozen=True)
class Overlays:
    """Overlays of a host's ports. has_engine: does the engine of the environment with that id really run?

    engines: as they are seen from a store and a cache, whose Secrets and regions those of others are entered by.
    """

    ports: Ports
    admission: Admission
    has_engine: Callable[[str], bool]
    engines: Callable[[WritingStore, Cache], Engines]
    checking: Checking

    @property
    def scene(self) -> Scene:
        """Return them as plans use them."""
        return Scene(packages=self._packages, what_if=self._what_if)

    @asynccontextmanager
    async def _packages(self) -> AsyncIterator[PlannedPackages]:
        """Packages of which nothing stays, and where new ones may be built."""
        real = self.ports.packages
        check = real.check if isinstance(real, LimitedPackages) else unlimited
        scratch = ScratchPackages(self.checking.inspect)
        try:
            yield PlannedPackages(OverlayPackages(real, scratch, check), scratch.incoming)
        finally:
            await scratch.close()

    def _what_if(self, cache: Cache, packages: Packages, bodies: Bodies, version: int) -> WhatIf:
        memory = MemoryStore(self.admission, bodies=bodies, version=version, breathe=Pace().breathe)
        store = WritingStore(memory, cache)
        ports = replace(
            self.ports,
            store=store,
            tenancy=lambda through: EmbeddedTenancy(through, memory.inside),
            deployer=OverlayDeployer(self.ports.deployer, now),
            engines=OverlayEngines(self.engines(store, cache), self.has_engine, self.checking.inspect),
            packages=packages,
            logs=NoLogs(),
            fetcher=NoFetches(),
            sources=PlannedSources(self.ports.sources.owned),
        )
        return WhatIf(cache=cache, store=store, lists=memory, ports=ports, holding=holding(ports.engines))
