"""Observe the inputs of a Region."""

from __future__ import annotations

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.decide import Observed
from tenantry.kinds.region.pools import SeenPool, pool_refs, server_of, with_default_pool
from tenantry.kinds.region.rollout import Name, Turn, Waves
from tenantry.kinds.region.spec import Region
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import EngineRef
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tenantry.ports import View, World


async def observe(region: Region, world: World) -> Observed:
    """Return the number of its environments, the host's provider of engines, and the Tenants with the names that may use it."""
    by = f"region={region.metadata.name}"
    environments = world.resources.count(Environment, by=by)
    found = world.resources.names(Environment, by)[:20] if region.deleting else ()
    users = tuple(Ref(Environment.KIND, *each) for each in found)
    named = (world.resources.get(Tenant, "", name) for name in region.spec.tenants or ())
    tenants = {tenant.metadata.name: tenant.metadata.uid for tenant in named if tenant is not None}
    waves = _waves(region.metadata.name, world.resources)
    region = with_default_pool(region, world.default_pool)
    return Observed(region, environments, world.deployer.provider, tenants, waves, await _pools(region, world), users)


async def _pools(region: Region, world: World) -> tuple[SeenPool, ...]:
    """On a machine of its own the platform needs none: all engines are in its process."""
    provider = world.deployer.provider if region.spec.provider == "Host" else region.spec.provider
    if provider != "Kubernetes" or world.deployer.provider != "Kubernetes":
        return ()
    found = [await _pool(region, ref, world) for ref in pool_refs(region)]
    wanted = {pool.name for pool in region.spec.engine.pools or ()}
    return tuple(pool for pool in found if pool.facts is not None or pool.engines or pool.ref.slug in wanted)


async def _pool(region: Region, ref: EngineRef, world: World) -> SeenPool:
    server = server_of(region, ref.id)
    secret = world.secrets.look(SYSTEM_NAMESPACE, server.name, server.key, "region") if server is not None else None
    engines = world.resources.count(Environment, by=f"pool={ref.id}")
    return SeenPool(ref, await world.deployer.engine(ref), engines, secret)


def _waves(region: str, view: View) -> Waves:
    """At rest nobody is found; of those that wait only the names are read, for they may be many."""

    def waiting(place: str) -> tuple[Name, ...]:
        return tuple(Name(*each) for each in view.names(Environment, f"rollout={region}/{place}"))

    turns = tuple(_turn(each) for each in view.list(Environment, by=f"rollout={region}/turn"))
    return Waves(turns, waiting("down"), waiting("early"), waiting("protected"), view.complete())


def _turn(environment: Environment) -> Turn:
    """One that is to restart and has not begun is not failed by the state that it was in before."""
    engine, stalled = environment.status.engine, environment.status.condition("Stalled")
    began = engine is not None and not engine.next
    failed = (engine is not None and began and engine.status == "FAILED") or (stalled is not None and stalled.status == "True")
    metadata = environment.metadata
    return Turn(Name(metadata.namespace, metadata.name), environment.spec.deletion_protection, failed)
