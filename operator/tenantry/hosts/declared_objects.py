"""The Kubernetes adapters' view of declared objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from tenantry.adapters.kubernetes.engines.workload import address_of
from tenantry.adapters.kubernetes.tenancy.guard import Granted
from tenantry.adapters.kubernetes.waking.slice_keeper import SleepingEngine
from tenantry.kinds.environment.ownership import NO_PROOF, PlaceProof, place_proof
from tenantry.kinds.environment.spec import WAKES_ON_REQUEST, Environment
from tenantry.kinds.namespace import Namespace
from tenantry.kinds.region.pools import most_replicas_of, pool_refs, server_of
from tenantry.kinds.region.spec import Region
from tenantry.model.facts import EngineEndpoint, EngineRef
from tenantry.model.resource import ACCESS_MARK, RESTORING, Ref, SecretKeyRef
from tenantry.runtime.cache import Cache, Entry, Seen
from tenantry.runtime.operations.attribution import bound_tenant


@dataclass(frozen=True)
class DeclaredObjects:
    """The Kubernetes adapters' view of declared objects: regions, environments and tenants."""

    cache: Cache

    def named(self, name: str) -> Region | None:
        """The Region, or None."""
        found = self.cache.resource(Ref(Region.KIND, "", name))
        return found if isinstance(found, Region) else None

    def of(self, ref: EngineRef) -> str:
        """The name of the region of an environment or of a pool, `""` when there is no such environment."""
        if ref.is_pool:
            return ref.name
        found = self.cache.resource(Ref(Environment.KIND, ref.namespace, ref.name))
        return found.spec.region if isinstance(found, Environment) else ""

    def proof(self, ref: EngineRef) -> PlaceProof:
        """Return the evidence that a namespace is this engine's. A pool's id is made of its Region's uid."""
        if ref.is_pool:
            return PlaceProof(ref.id)
        found = self.cache.resource(Ref(Environment.KIND, ref.namespace, ref.name))
        return place_proof(found) if isinstance(found, Environment) and found.id == ref.id else NO_PROOF

    def pools_of(self, ref: EngineRef) -> tuple[str, ...]:
        """The ids of the pools that may hold the engine of an environment: that of its status, or all of its region."""
        found = self.cache.resource(Ref(Environment.KIND, ref.namespace, ref.name))
        engine = found.status.engine if isinstance(found, Environment) else None
        if engine is not None and (engine.pool or engine.id):
            return (engine.pool,) if engine.pool else ()
        region = self.named(found.spec.region) if isinstance(found, Environment) else None
        return tuple(each.id for each in pool_refs(region)) if region is not None else ()

    def moves_of(self, ref: EngineRef) -> tuple[str, ...]:
        """The ids of other pools that may hold a part of a move of that engine."""
        found = self.cache.resource(Ref(Environment.KIND, ref.namespace, ref.name))
        move = found.status.move if isinstance(found, Environment) else None
        if move is None:
            return ()
        return tuple(each for each in (move.from_pool, move.to_pool) if each and each not in self.pools_of(ref))

    def pools(self) -> frozenset[str]:
        """The ids of all pools that exist."""
        found = self.cache.resources(Region.KIND)
        return frozenset(pool.id for one in found if isinstance(one, Region) for pool in one.status.pools)

    def server_of(self, pool: str) -> SecretKeyRef | None:
        """The Secret with the URL of the server of the pool with that id, None for a pool on a volume."""
        regions = (each for each in self.cache.resources(Region.KIND) if isinstance(each, Region))
        return next(filter(None, (server_of(region, pool) for region in regions)), None)

    def replicas_of(self, pool: str) -> int:
        """The largest number of pods that the pool with that id may have."""
        regions = (each for each in self.cache.resources(Region.KIND) if isinstance(each, Region))
        return max((most_replicas_of(region, pool) for region in regions), default=1)

    def address_of(self, endpoint: EngineEndpoint) -> str:
        """Return the Service of an engine in this cluster; the public URL of any other engine."""
        environment = self._environment(endpoint.environment_id)
        region = self.named(environment.spec.region) if environment else None
        if endpoint.admin_secret is not None or (region is not None and region.remote):
            return endpoint.url
        engine = environment.status.engine if environment else None
        return address_of(endpoint.environment_id, (engine.pool or "") if engine else "")

    def woken_by_requests(self) -> Iterator[EngineRef]:
        """The engines that requests wake, whether they sleep or not."""
        for ref, entry in self.cache.entries(Environment.KIND, by=WAKES_ON_REQUEST):
            yield from _engines_of(ref, entry)

    def sleep_of(self, ref: EngineRef) -> SleepingEngine | None:
        """The state of an engine, None where there is no such environment. Those of other clusters do not wake by requests."""
        found = self.cache.resource(Ref(Environment.KIND, ref.namespace, ref.name))
        if not isinstance(found, Environment) or found.id != ref.id or found.deleting:
            return None
        region, engine = self.named(found.spec.region), found.status.engine
        remote = region is not None and region.remote
        wakes = found.wakes_on_request and not remote and engine is not None and not engine.pool
        return SleepingEngine(
            sleeps=bool(wakes and engine is not None and engine.sleeping_since is not None),
            runs=bool(wakes and engine is not None and engine.status == "RUNNING"),
        )

    async def sleep_changes(self) -> AsyncIterator[EngineRef]:
        """Engines whose sleep may have begun or ended, without end."""
        changed: asyncio.Queue[EngineRef] = asyncio.Queue()

        def hear(seen: Seen) -> None:
            if seen.ref.kind == Environment.KIND and seen.matters and WAKES_ON_REQUEST in seen.keys:
                for engine in _engines_of(seen.ref, seen.after or seen.before):
                    changed.put_nowait(engine)

        unlisten = self.cache.listen(hear)
        try:
            while True:
                yield await changed.get()
        finally:
            unlisten()

    def granted_in(self, namespace: str) -> Granted | None:
        """The tenant that is bound to a namespace, and the access that this is marked to have; None while it has none."""
        found = self.cache.resource(Ref(Namespace.KIND, "", namespace))
        mark = "" if found is None or found.deleting else found.metadata.annotations.get(ACCESS_MARK, "")
        tenant = bound_tenant(namespace, self.cache) if mark else None
        if tenant is None or tenant.deleting or tenant.spec.access.facts.mark != mark:
            return None
        return Granted(tenant.metadata.name, tenant.spec.access.facts, tuple(each.facts for each in tenant.status.regions))

    def restoring(self) -> frozenset[str]:
        """The ids of the environments whose restore has not ended."""
        found = self.cache.resources(Environment.KIND)
        return frozenset(one.id for one in found if isinstance(one, Environment) and RESTORING in one.metadata.annotations)

    def has_engine(self, id_: str) -> bool:
        """Return True if the environment of that id has an engine that once answered."""
        environment = self._environment(id_)
        return environment is not None and environment.status.phase == "READY"

    def _environment(self, id_: str) -> Environment | None:
        found = (self.cache.resource(Ref(Environment.KIND, *name)) for name in self.cache.names(Environment.KIND, by=f"id={id_}"))
        return next((one for one in found if isinstance(one, Environment)), None)


def _engines_of(ref: Ref, entry: Entry | None) -> Iterator[EngineRef]:
    """The engine of an environment by each of its ids, the uid and the declared one; the object is not parsed for that."""
    for key in entry.keys if entry is not None else ():
        if key.startswith("id="):
            yield EngineRef(ref.namespace, ref.name, key.removeprefix("id="))
