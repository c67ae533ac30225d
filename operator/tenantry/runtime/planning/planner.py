"""Plans of edits, of sources and of bundles: each is made once, here, for every door that asks for one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import orjson

from tenantry.kinds.registry import FINALIZED, FOLLOWED, KINDS
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import Caller
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Halt
from tenantry.ports import Packages
from tenantry.rest.fairness.long_steps import off_the_loop
from tenantry.rest.plan_bundle import read_bundle
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import bound_tenant
from tenantry.runtime.planning.bundles import Admit, Incoming, admitted, keep_packages
from tenantry.runtime.planning.plan import Edit, Remarks, Settle, WhatIf, plan, rehearsed
from tenantry.runtime.planning.planned import Planned, declared_digest
from tenantry.runtime.planning.reach import EVERYTHING, Covers, Reach, reach_of
from tenantry.runtime.sources.applied import applied_by, source_of_name
from tenantry.runtime.sources.inventory import CacheLists
from tenantry.runtime.sources.pruning import Budget
from tenantry.runtime.sources.sync import Syncer

Bodies = Sequence[tuple[Ref, bytes]]
"""Objects as the cache holds them: JSON."""


class PlannedPackages(NamedTuple):
    """Packages of which nothing stays. incoming: where new ones may be built."""

    packages: Packages
    incoming: Incoming


@dataclass(frozen=True)
class Scene:
    """The copies that a plan works on. packages: for the time of one plan; what_if: the ports over a copy of the cache, these
    packages and a store of those objects, at that version."""

    packages: Callable[[], AbstractAsyncContextManager[PlannedPackages]]
    what_if: Callable[[Cache, Packages, Bodies, int], WhatIf]


class _Copy(NamedTuple):
    """The ports of a plan, over a copy of the cache. bodies: the objects as they were."""

    what_if: WhatIf
    bodies: dict[Ref, bytes]


class _AsWhom(NamedTuple):
    """A tenant's caller, and its tenant's namespace."""

    caller: Caller
    namespace: str


Read = Callable[[PlannedPackages, str], Awaitable[Tree]]
"""Reads a source, its packages stored there. The text: the commit that was applied last, `""` if none."""


ReadUnfollowed = Callable[[Collection[str] | None], Awaitable[None]]
"""Reads what the cache does not follow, in those namespaces or (None) in all. Raises Halt."""


@dataclass(frozen=True)
class Planner:
    """Plans over what the cache holds."""

    cache: Cache
    scene: Scene
    admit: Admit
    now: Callable[[], datetime]
    read_unfollowed: ReadUnfollowed | None = None
    """None where the cache follows everything."""

    async def edit(self, edit: Edit, tenant: str) -> Planned:
        """Return what an edit of declared objects would come to. Nothing is done.

        tenant: the Tenant whose member asks, and which is all that the plan covers; `""` for a caller who may read everything.
        """
        async with self.scene.packages() as made:
            return await self._plan(made.packages, edit, tenant=tenant)

    async def source(self, read: Read, name: str, budget: Budget) -> Planned:
        """Return the effects of applying a source under that name. Changes nothing."""
        async with self.scene.packages() as made:
            tree = await read(made, applied_by(self.cache, name))
            return await self._applied(made.packages, tree, name, self._budget(name, budget))

    async def bundle(self, file: Path, caller: Caller, namespace: str, budget: Budget) -> Planned:
        """Return the effects of applying a source that a client has read, with its caller's rights; see rest.plan_bundle.

        namespace: the only one that a tenant's caller sees; `""` for a caller of the platform. Raises Invalid.
        """
        async with self.scene.packages() as made:
            bundle = await asyncio.to_thread(read_bundle, file)
            applied = self._applied_by(bundle.name, namespace)
            tree = await asyncio.to_thread(admitted, bundle, namespace, applied, self.admit)
            await keep_packages(made.packages, file, bundle, tree, made.incoming, self.cache)
            as_whom = _AsWhom(caller, namespace) if namespace else None
            return await self._applied(made.packages, tree, bundle.name, self._budget(bundle.name, budget), as_whom)

    def _budget(self, name: str, others: Budget) -> Budget:
        """Return what a sync of the source of that name may prune. others: of all that are no Source's."""
        source = source_of_name(self.cache, name)
        return Budget(source.spec.prune.objects, source.spec.prune.percent / 100) if source else others

    def _applied_by(self, name: str, namespace: str) -> str:
        """Return the commit that was applied last by that name. A tenant's caller hears of no other tenant's Source."""
        source = source_of_name(self.cache, name)
        foreign = source is not None and source.metadata.namespace not in (namespace, SYSTEM_NAMESPACE)
        return "" if namespace and foreign else applied_by(self.cache, name)

    async def _applied(
        self, packages: Packages, tree: Tree, name: str, budget: Budget, as_whom: _AsWhom | None = None
    ) -> Planned:
        async def edit(what_if: WhatIf, settle: Settle) -> Remarks:
            store = what_if.store.as_(as_whom.caller) if as_whom else what_if.store
            lists = CacheLists(what_if.cache, as_whom.namespace) if as_whom else what_if.lists
            syncer = Syncer(store=store, lists=lists, source=name, finalized=FINALIZED, budget=budget, holding=what_if.holding)
            synced = await syncer.sync(tree)
            while synced.waiting:
                await settle()
                synced = await syncer.sync(tree)
                if not (synced.created or synced.changed or synced.pruned):
                    break
            return Remarks(tuple(map(str, synced.problems)), synced.kept, synced.waiting)

        tenant = as_whom.caller.tenant if as_whom else ""
        planned = await self._plan(packages, edit, await asyncio.to_thread(declared_digest, tree), tenant)
        return replace(planned, passed_over=tree.passed_over)

    async def _plan(self, packages: Packages, edit: Edit, declared: str = "", tenant: str = "") -> Planned:
        (what_if, bodies), covers = await self._prepared(packages, edit, tenant)
        notes = await plan(KINDS, what_if, edit, time=time.monotonic, now=self.now, covers=covers)
        bound = ((name, bound_tenant(name, self.cache)) for name in {ref.namespace for ref in notes.concerns})
        owners = {name: owner.metadata.uid for name, owner in bound if owner is not None}
        namespace = _namespace_of(what_if.cache, tenant)

        def made() -> Planned:
            planned = _stamped(notes.planned(), declared, bodies, owners)
            return planned.within(namespace) if tenant else planned

        found = sum(len(bodies[ref]) for ref in notes.concerns if ref in bodies)
        return await off_the_loop(notes.size + found, made)

    async def _prepared(self, packages: Packages, edit: Edit, tenant: str) -> tuple[_Copy, Covers]:
        """Return a copy of the platform, and the objects that the edit may wake: those come to rest before it.

        What the cache does not follow is read anew before, in all namespaces that the edit reaches. Raises what the edit is
        refused with.
        """
        read = self.read_unfollowed
        if tenant:
            if read is not None:
                await read((_namespace_of(self.cache, tenant),))
            copy = await self._copy(self.cache.snapshot(), packages)
            return copy, _tenants_own(copy.what_if.cache, tenant)
        known: frozenset[str] = frozenset()
        while True:
            snapshot = self.cache.snapshot()
            copy = await self._copy(snapshot, packages)
            covers, namespaces = await self._reach(copy.what_if.cache, snapshot, edit)
            if read is None or (namespaces is not None and namespaces <= known):
                return copy, covers
            await read(namespaces)
            if namespaces is None:
                return await self._copy(self.cache.snapshot(), packages), covers
            known |= namespaces

    async def _reach(self, cache: Cache, snapshot: Callable[[], Cache], edit: Edit) -> Reach:
        # With packages of its own: an edit that writes some is made again. Only passes read those of a source.
        async with self.scene.packages() as made:
            what_if, _ = await self._copy(snapshot, made.packages)
            try:
                edits, remarks = await rehearsed(what_if, edit)
            except Halt:
                if self.read_unfollowed is None:
                    raise
                return EVERYTHING  # perhaps for something that is not read yet
        out = (*(each.ref.namespace for each in remarks.waiting), *(each.held.ref.namespace for each in remarks.kept))
        return reach_of(cache, edits, out)

    async def _copy(self, snapshot: Callable[[], Cache], packages: Packages) -> _Copy:
        """In a thread: of thousands of objects it takes long, and everybody's requests wait for the event loop.

        Only the snapshot is taken there, one copy of a dict for each kind: it is of one moment because nothing else runs.
        """
        return await asyncio.to_thread(self._copied, snapshot, packages)

    def _copied(self, snapshot: Callable[[], Cache], packages: Packages) -> _Copy:
        cache = snapshot()
        followed = {ref: entry for kind in FOLLOWED for ref, entry in cache.entries(kind)}
        bodies = {ref: entry.raw for ref, entry in followed.items()}
        version = max((entry.version for entry in followed.values()), default=0)
        return _Copy(self.scene.what_if(cache, packages, tuple(bodies.items()), version), bodies)


def _stamped(planned: Planned, declared: str, bodies: Mapping[Ref, bytes], owners: Mapping[str, str]) -> Planned:
    """The plan with what it was made from; see Planned.of. Blocks: it reads each object that the plan concerns."""
    found = {ref: orjson.loads(bodies[ref]) for ref in planned.concerns if ref in bodies}
    return planned.of(declared, found, owners)


def _tenants_own(cache: Cache, tenant: str) -> Covers:
    """Return a check that an object is the Tenant or in its namespace. A tenant's plan must not reconcile the objects of
    others."""
    own, namespace = Ref(Tenant.KIND, "", tenant), _namespace_of(cache, tenant)
    return lambda ref: ref == own or (namespace != "" and ref.namespace == namespace)


def _namespace_of(cache: Cache, tenant: str) -> str:
    found = cache.resource(Ref(Tenant.KIND, "", tenant))
    return found.bound_namespace if isinstance(found, Tenant) else ""
