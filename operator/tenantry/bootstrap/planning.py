"""What would happen: the platform's own runtime over what-if ports."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.overlay.deployer import OverlayDeployer
from tenantry.adapters.overlay.engines import OverlayEngines
from tenantry.adapters.overlay.packages import NoFetches, NoLogs, OverlayPackages, PlannedSources
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.tenancy import EmbeddedTenancy
from tenantry.bootstrap.seat import FINALIZED, FOLLOWED, Ports, now
from tenantry.bootstrap.sources import Reading, open_source
from tenantry.engine.packages.build import build
from tenantry.engine.packages.check import inspect
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import KINDS
from tenantry.ports import Engines
from tenantry.runtime.cache import Cache
from tenantry.runtime.plan import Edit, Remarks, Settle, WhatIf, plan
from tenantry.runtime.planned import Planned, declared_digest
from tenantry.runtime.pruning import Budget
from tenantry.runtime.sync import Syncer
from tenantry.runtime.writing import WritingStore


@dataclass(frozen=True)
class Planner:
    """Plans over what the cache holds. has_engine: does the engine of the environment with that id really run?

    engines: as they are seen from a store and a cache, whose Secrets and regions those of others are entered by.
    """

    cache: Cache
    ports: Ports
    admission: Admission
    has_engine: Callable[[str], bool]
    engines: Callable[[WritingStore, Cache], Engines]

    async def edit(self, edit: Edit) -> Planned:
        """What an edit of declared objects would come to. Nothing is done."""
        async with self._packages() as (packages, _):
            return await self._plan(packages, edit)

    async def source(self, source: Path | GitUrl, name: str, budget: Budget, reading: Reading) -> Planned:
        """What applying a directory or a repository would come to. Nothing is done."""
        async with self._packages() as (packages, incoming):
            files = PackageFiles(packages, build, incoming)
            opened = open_source(source, incoming / "git", lambda document: self.admission.admit(document, None), files, reading)

            tree = await opened.read()

            async def edit(what_if: WhatIf, settle: Settle) -> Remarks:
                syncer = Syncer(what_if.store, what_if.lists, name, FINALIZED, budget)
                synced = await syncer.sync(tree)
                waiting: frozenset[str] = frozenset()
                while syncer.waits_for and syncer.waits_for != waiting:
                    waiting = syncer.waits_for
                    await settle()
                    for namespace in waiting:
                        await syncer.resume(namespace)
                return Remarks(tuple(map(str, synced.problems)), synced.kept)

            return await self._plan(packages, edit, await asyncio.to_thread(declared_digest, tree))

    @asynccontextmanager
    async def _packages(self) -> AsyncIterator[tuple[OverlayPackages, Path]]:
        """Packages of which nothing stays, and where new ones may be built."""
        with tempfile.TemporaryDirectory(prefix="tenantry-plan-") as folder:
            scratch = await asyncio.to_thread(FolderBlobs, Path(folder), inspect)
            yield OverlayPackages(self.ports.packages, scratch), scratch.incoming

    async def _plan(self, packages: OverlayPackages, edit: Edit, declared: str = "") -> Planned:
        cache = self.cache.fork()
        bodies = [(ref, entry.raw) for kind in FOLLOWED for ref, entry in cache.entries(kind)]
        version = max((entry.version for kind in FOLLOWED for _, entry in cache.entries(kind)), default=0)
        memory = MemoryStore(self.admission, bodies=bodies, version=version)
        store = WritingStore(memory, cache)
        ports = replace(
            self.ports,
            store=store,
            tenancy=lambda through: EmbeddedTenancy(through, memory.inside),
            deployer=OverlayDeployer(self.ports.deployer, now),
            engines=OverlayEngines(self.engines(store, cache), self.has_engine, inspect),
            packages=packages,
            logs=NoLogs(),
            fetcher=NoFetches(),
            sources=PlannedSources(self.ports.sources.owned),
        )
        planned = await plan(KINDS, WhatIf(cache, ports.store, memory, ports), edit, time=time.monotonic, now=now)
        found = {ref: orjson.loads(raw) for ref, raw in bodies if ref in planned.concerns}
        return planned.of(declared, found)
