"""What would happen: the platform's own runtime over what-if ports."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.overlay.deployer import OverlayDeployer
from tenantry.adapters.overlay.engines import OverlayEngines
from tenantry.adapters.overlay.packages import NoFetches, NoLogs, OverlayPackages, PlannedSources
from tenantry.adapters.sources.documents import at, gathered
from tenantry.adapters.sources.git.applied import Remembered
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.adapters.sources.packages import PackageFiles, holder_of, tenants_of
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.tenancy import EmbeddedTenancy
from tenantry.bootstrap.packages import Checking, bound_tenants
from tenantry.bootstrap.seat import FINALIZED, FOLLOWED, Ports, now
from tenantry.bootstrap.sources import Reading, open_source
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import KINDS
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, Ref
from tenantry.model.tree import Declared, Revision, SourceProblem, Tree
from tenantry.model.verdicts import Invalid, Problem
from tenantry.ports import Engines
from tenantry.rest.plan_bundle import Bundle, read_bundle, take_package
from tenantry.runtime import attribution
from tenantry.runtime.applied import applied_by
from tenantry.runtime.cache import Cache
from tenantry.runtime.holding import holding
from tenantry.runtime.inventory import CacheLists
from tenantry.runtime.plan import Edit, Remarks, Settle, WhatIf, plan
from tenantry.runtime.planned import Planned, declared_digest
from tenantry.runtime.pruning import Budget
from tenantry.runtime.sync import Syncer
from tenantry.runtime.writing import WritingStore
from tenantry.settings import Settings


async def nothing_to_read(tenant: str) -> None:
    """Of a host whose cache follows everything."""


class _AsWhom(NamedTuple):
    """A tenant's caller, and its tenant's namespace."""

    caller: Caller
    namespace: str


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
    checking: Checking
    refresh: Callable[[str], Awaitable[None]] = nothing_to_read
    """Reads what the cache does not follow, of that Tenant or (`""`) of all."""

    async def edit(self, edit: Edit, tenant: str) -> Planned:
        """Return what an edit of declared objects would come to. Nothing is done.

        tenant: the Tenant whose member asks, and which is all that the plan covers; `""` for a caller who may read everything.
        """
        async with self._packages() as (packages, _):
            return await self._plan(packages, edit, tenant=tenant)

    async def source(self, source: Path | GitUrl, name: str, budget: Budget, reading: Reading) -> Planned:
        """What applying a directory or a repository would come to. Nothing is done."""
        async with self._packages() as (packages, incoming):
            files = PackageFiles(packages, self.checking.build, incoming)
            applied = Remembered(applied_by(self.cache, name))
            opened = open_source(source, incoming / "git", self._admit, files, reading, applied)
            tree = await opened.read()
            return await self._applied(packages, tree, name, budget)

    async def bundle(self, file: Path, caller: Caller, namespace: str, budget: Budget) -> Planned:
        """What applying a source would come to that a client has read, with its caller's rights; see rest.plan_bundle.

        namespace: of a tenant's caller, and all that it is told of; `""` for one of the platform. Raises Invalid.
        """
        async with self._packages() as (packages, incoming):
            bundle = await asyncio.to_thread(read_bundle, file)
            tree = await asyncio.to_thread(self._admitted, bundle, namespace)
            await self._take(packages, file, bundle, tree, incoming)
            as_whom = _AsWhom(caller, namespace) if namespace else None
            return await self._applied(packages, tree, bundle.name, budget, as_whom)

    def _admit(self, document: Document) -> Document:
        return self.admission.admit(document, None)

    def _admitted(self, bundle: Bundle, namespace: str) -> Tree:
        """What a bundle declares. Blocks."""
        documents: list[Declared] = []
        problems: list[SourceProblem] = []
        for place, document in bundle.documents:
            try:
                documents.append(Declared.of(_placed(self.admission.admit(_mapping(document), None), namespace), place))
            except Invalid as error:
                problems += (at(place, problem) for problem in error.problems)
        tree = gathered(tuple(documents), problems, lambda place, _: place.line)
        return replace(tree, revision=Revision(bundle.commit) if bundle.commit else None)

    async def _take(self, packages: OverlayPackages, file: Path, bundle: Bundle, tree: Tree, incoming: Path) -> None:
        """Keeps the packages that came along, for the tenants whose Packages name them."""
        declared = tenants_of(each.document for each in tree.documents if each.ref.kind == "Tenant")
        tenants = {**declared, **bound_tenants(self.cache)}
        for each in tree.documents:
            spec = each.document["spec"] if each.ref.kind == "Package" else {}
            if spec.get("sha256") not in bundle.packages:
                continue
            package = incoming / f"{spec['sha256']}.tapp"
            await asyncio.to_thread(take_package, file, spec["sha256"], package)
            facts = await packages.put(holder_of(each.document, tenants), package)
            if facts.sha256 != spec["sha256"]:
                raise Invalid((Problem("packages", f"{spec['sha256']} holds bytes of {facts.sha256}"),))

    async def _applied(
        self, packages: OverlayPackages, tree: Tree, name: str, budget: Budget, as_whom: _AsWhom | None = None
    ) -> Planned:
        async def edit(what_if: WhatIf, settle: Settle) -> Remarks:
            store = what_if.store.as_(as_whom.caller) if as_whom else what_if.store
            lists = CacheLists(what_if.cache, as_whom.namespace) if as_whom else what_if.lists
            syncer = Syncer(store, lists, name, FINALIZED, budget, holding=what_if.holding)
            synced = await syncer.sync(tree)
            while synced.waiting:
                await settle()
                synced = await syncer.sync(tree)
                if not (synced.created or synced.changed or synced.pruned):
                    break
            return Remarks(tuple(map(str, synced.problems)), synced.kept, synced.waiting)

        tenant = as_whom.caller.tenant if as_whom else ""
        return await self._plan(packages, edit, await asyncio.to_thread(declared_digest, tree), tenant)

    @asynccontextmanager
    async def _packages(self) -> AsyncIterator[tuple[OverlayPackages, Path]]:
        """Packages of which nothing stays, and where new ones may be built."""
        with tempfile.TemporaryDirectory(prefix="tenantry-plan-") as folder:
            scratch = await asyncio.to_thread(FolderBlobs, Path(folder), self.checking.inspect)
            yield OverlayPackages(self.ports.packages, scratch), scratch.incoming

    async def _plan(self, packages: OverlayPackages, edit: Edit, declared: str = "", tenant: str = "") -> Planned:
        await self.refresh(tenant)
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
            engines=OverlayEngines(self.engines(store, cache), self.has_engine, self.checking.inspect),
            packages=packages,
            logs=NoLogs(),
            fetcher=NoFetches(),
            sources=PlannedSources(self.ports.sources.owned),
        )
        what_if = WhatIf(cache, ports.store, memory, ports, holding(ports.engines))
        covers = _tenants_own(cache, tenant) if tenant else _everything
        planned = await plan(KINDS, what_if, edit, time=time.monotonic, now=now, covers=covers)
        found = {ref: orjson.loads(raw) for ref, raw in bodies if ref in planned.concerns}
        owners = {ref.namespace: attribution.bound_tenant(ref.namespace, self.cache) for ref in planned.concerns}
        planned = planned.of(declared, found, {name: each.metadata.uid for name, each in owners.items() if each is not None})
        return planned.within(_namespace_of(cache, tenant)) if tenant else planned


def _everything(ref: Ref) -> bool:
    return True


def _tenants_own(cache: Cache, tenant: str) -> Callable[[Ref], bool]:
    """Is an object the Tenant, or in its namespace? One tenant's plan does not cost passes over the objects of others."""
    own, namespace = Ref(Tenant.KIND, "", tenant), _namespace_of(cache, tenant)
    return lambda ref: ref == own or (namespace != "" and ref.namespace == namespace)


def _namespace_of(cache: Cache, tenant: str) -> str:
    found = cache.resource(Ref(Tenant.KIND, "", tenant))
    bound = found.status.namespace if isinstance(found, Tenant) else None
    return bound.name if bound else ""


def budget_of(settings: Settings) -> Budget:
    """What one sync may prune."""
    return Budget(settings.prune.objects, settings.prune.share)


def _mapping(document: Any) -> Document:
    if not isinstance(document, dict):
        raise Invalid((Problem("", "must be a mapping with apiVersion, kind and metadata"),))
    return document


def _placed(document: Document, namespace: str) -> Document:
    """Raises Invalid for what is not in the namespace of a tenant's caller."""
    if namespace and document["metadata"].get("namespace") != namespace:
        raise Invalid((Problem("metadata.namespace", f"must be {namespace}: a tenant's ADMIN plans for its tenant alone"),))
    return document
