"""What a Region looks at."""

from __future__ import annotations

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.decide import Observed
from tenantry.kinds.region.spec import Region
from tenantry.ports import World


async def observe(region: Region, world: World) -> Observed:
    """How many environments use it, and what the host runs engines on."""
    environments = world.resources.count(Environment, by=f"region={region.metadata.name}")
    return Observed(region, environments, world.deployer.provider)
