"""What a Region looks at."""

from __future__ import annotations

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.decide import Observed
from tenantry.kinds.region.spec import Region
from tenantry.kinds.tenant.spec import Tenant
from tenantry.ports import World


async def observe(region: Region, world: World) -> Observed:
    """How many environments use it, what the host runs engines on, and which Tenants have the names that may use it."""
    environments = world.resources.count(Environment, by=f"region={region.metadata.name}")
    named = (world.resources.get(Tenant, "", name) for name in region.spec.tenants or ())
    tenants = {tenant.metadata.name: tenant.metadata.uid for tenant in named if tenant is not None}
    return Observed(region, environments, world.deployer.provider, tenants)
