"""Placement of an engine on a cluster: in a pool of the region, or in a pod of its own. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tenantry.kinds.environment.spec import DeclaredEngine, Environment
from tenantry.model.decision import Warned
from tenantry.model.facts import EngineFacts, volume_of
from tenantry.model.resource import RESTORING
from tenantry.model.verdicts import Stalled

SMALL = "small"
"""The size of engines that a pool takes by default."""


@dataclass(frozen=True)
class RegionPlacement:
    """allowed: `Pooled`, `Dedicated`, or `""` for both. pools: the ids of the region's pools by name, the first one first.

    offered: False for engines on the machine of the platform, which are all in one process. left: pools that are no longer
    declared, and hold engines. servers: the ids of the pools whose engines have their rows on a server.
    """

    allowed: str = ""
    pools: tuple[tuple[str, str], ...] = ()
    offered: bool = False
    left: tuple[tuple[str, str], ...] = ()
    servers: frozenset[str] = frozenset()

    def name_of(self, pool: str) -> str:
        """Return the place of that id, for people."""
        names = {id_: name for name, id_ in (*self.left, *self.pools)}
        return f"pool {names.get(pool, pool)}" if pool else "a pod of its own"


NOWHERE = RegionPlacement()


@dataclass(frozen=True)
class Placed:
    """pool: the id of the engine's pool, `""` for a pod of its own. refusal: why it cannot be placed as declared.

    moves_to: the place that is declared instead, None where the engine stays.
    """

    pool: str = ""
    refusal: Stalled | None = None
    moves_to: str | None = None


def placed(environment: Environment, engine: EngineFacts | None, region: RegionPlacement) -> Placed:
    """Return where the engine runs or is to run. An engine stays where it is until another place is declared."""
    declared = environment.spec.engine
    if declared.external is not None or not region.offered:
        return Placed()
    held = _held(environment, engine)
    if held is None:
        return _chosen(environment, region)
    if _stays(declared, held, region):
        return Placed(held, _lacking(declared, held))
    wanted = _chosen(environment, region)
    return Placed(held, wanted.refusal, None if wanted.refusal is not None else wanted.pool)


def may_have_database(environment: Environment, region: RegionPlacement) -> bool:
    """Return True if a server may have a database for an engine that its pool never took, such as a full one."""
    return placed(environment, None, region).pool in region.servers


def placement_warning(environment: Environment, region: RegionPlacement) -> Warned | None:
    """Say that a declared place is for clusters, and without effect on the machine of the platform."""
    declared = environment.spec.engine
    field = "pool" if declared.pool is not None else "placement" if declared.placement == "Dedicated" else ""
    if region.offered or not field:
        return None
    return Warned("PlacementNotUsed", f"spec.engine.{field}: the engines of this host run in one process; leave the field out")


def _held(environment: Environment, engine: EngineFacts | None) -> str | None:
    """Return the pool of an engine that exists or once ran, `""` for a pod of its own; None where there was none yet."""
    if engine is not None:
        return engine.pool
    if volume_of(environment.metadata.annotations.get(RESTORING, "")):
        return ""  # it gets the volume that it had
    status = environment.status.engine
    if status is not None and status.pool:
        return status.pool
    return "" if environment.status.phase == "READY" else None


def _stays(declared: DeclaredEngine, held: str, region: RegionPlacement) -> bool:
    """Return True if nothing else is declared than the place where the engine is."""
    if declared.pool is not None:
        # A pool that got a server keeps its name, and is another one.
        return (declared.pool, held) in (*region.left, *region.pools)
    return declared.placement is None or (declared.placement == "Pooled") == (held != "")


def _lacking(declared: DeclaredEngine, pool: str) -> Stalled | None:
    """Return the refusal of an engine that needs something that a pool does not have."""
    field = _needs(declared) if pool else ""
    if not field:
        return None
    ways = "leave it out, or declare `placement: Dedicated`"
    return Stalled("PoolLacks", f"spec.engine.{field}: an engine in a pool has none of its own; {ways}")


def _needs(declared: DeclaredEngine) -> str:
    if declared.size not in (None, SMALL):
        return "size"
    own = {"version": declared.version, "storage": declared.storage, "database": declared.database}
    return next((name for name, value in own.items() if value is not None), "")


def _chosen(environment: Environment, region: RegionPlacement) -> Placed:
    declared = environment.spec.engine
    asks = declared.placement == "Pooled" or declared.pool is not None
    if declared.placement is not None and region.allowed not in ("", declared.placement):
        told = f"{declared.placement!r} is not allowed: the region places engines {region.allowed}"
        return Placed(refusal=Stalled("PlacementNotAllowed", f"spec.engine.placement: {told}"))
    if asks and region.allowed == "Dedicated":
        return Placed(refusal=Stalled("PlacementNotAllowed", "spec.engine.pool: the region places engines Dedicated"))
    if declared.placement == "Dedicated" or region.allowed == "Dedicated":
        return Placed()
    if not asks and region.allowed != "Pooled" and (not region.pools or _needs(declared)):
        return Placed()
    return _in_pool(declared, region)


def _in_pool(declared: DeclaredEngine, region: RegionPlacement) -> Placed:
    names = ", ".join(name for name, _ in region.pools)
    if not region.pools:
        return Placed(refusal=Stalled("PoolNotFound", "spec.engine.placement: the region has no pool"))
    pool = dict(region.pools).get(declared.pool or region.pools[0][0])
    if pool is None:
        return Placed(refusal=Stalled("PoolNotFound", f"spec.engine.pool: {declared.pool!r} is none of {names}"))
    return Placed(pool, _lacking(declared, pool))
