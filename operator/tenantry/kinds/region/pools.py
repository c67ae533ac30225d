"""The pools of a Region: what each is to be, what exists, and what is removed. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tenantry.kinds.region.rollout import opens_at
from tenantry.kinds.region.spec import EnginePool, PoolStatus, Region
from tenantry.model.changes import Change, DeployPool, UndeployPool
from tenantry.model.facts import DefaultPool, EngineFacts, EngineRef, EngineSpec
from tenantry.model.verdicts import Verdict, Waiting

DEFAULT_POOL = EnginePool(name="default")


@dataclass(frozen=True)
class SeenPool:
    """A pool that exists or is declared. engines: of how many Environments it holds the engine."""

    ref: EngineRef
    facts: EngineFacts | None = None
    engines: int = 0


def pool_id(region_uid: str, name: str) -> str:
    """Return the id of a pool. A Region that is made again under the same name has other pools."""
    return f"pool-{hashlib.sha256(f'{region_uid}/{name}'.encode()).hexdigest()[:12]}"


def with_default_pool(region: Region, offered: DefaultPool) -> Region:
    """Return the Region with the platform's default pool, if one is offered and the Region declares nothing else."""
    rules = region.spec.engine
    wanted = _is_new(region) if offered == "new" else offered == "true"
    if not wanted or region.remote or rules.pools is not None or rules.placement == "Dedicated":
        return region
    engine = rules.model_copy(update={"pools": [DEFAULT_POOL]})
    return region.model_copy(update={"spec": region.spec.model_copy(update={"engine": engine})})


def _is_new(region: Region) -> bool:
    """Return True until the first decision on a Region, and afterwards if that gave it the default pool.

    Its status keeps the decision, so an upgrade of the platform gives no pool to the Regions that exist.
    """
    own = pool_id(region.metadata.uid, DEFAULT_POOL.name)
    return region.status.provider is None or own in {pool.id for pool in region.status.pools}


def pool_refs(region: Region) -> tuple[EngineRef, ...]:
    """Return the pools that are declared, and those that exist, by id."""
    uid = region.metadata.uid
    named = {pool_id(uid, pool.name): pool.name for pool in region.spec.engine.pools or ()}
    named = {**{pool.id: pool.name for pool in region.status.pools}, **named}
    return tuple(EngineRef("", region.metadata.name, id_, slug=name) for id_, name in named.items())


def pool_changes(region: Region, seen: tuple[SeenPool, ...], provider: str, now: datetime) -> tuple[Change, ...]:
    """Return what brings the pools to their declaration. A pool that holds engines stays, declared or not.

    Another release of the platform restarts a pool in the window of the Region only.
    """
    is_open = opens_at(region.spec.engine.rollout.window, now) is None
    declared = _declared(region)
    changes: list[Change] = []
    for pool in seen:
        wanted = declared.get(pool.ref.id)
        spec = _spec(wanted, pool.ref, provider) if wanted is not None else None
        if spec is not None and (pool.facts is None or pool.facts.spec != spec or (pool.facts.next and is_open)):
            changes.append(DeployPool(spec))
        elif spec is None and pool.facts is not None and not pool.engines:
            changes.append(UndeployPool(pool.ref))
    return tuple(changes)


def pool_statuses(seen: tuple[SeenPool, ...]) -> tuple[PoolStatus, ...]:
    """Return the pools as the status shows them."""
    return tuple(_status(pool) for pool in seen)


def pools_verdict(region: Region, seen: tuple[SeenPool, ...]) -> Verdict | None:
    """Return the verdict on a Region with a declared pool that does not run, None if all run."""
    declared = _declared(region)
    for pool in seen:
        status = _status(pool)
        if pool.ref.id in declared and status.status != "RUNNING":
            told = f"pool {pool.ref.slug}: {status.message or 'its pod is starting'}"
            failed = status.status == "FAILED"
            return Waiting("PoolFailed", told) if failed else Waiting("PoolStarting", told, expected=True)
    return None


def pools_until(region: Region, seen: tuple[SeenPool, ...], now: datetime) -> datetime | None:
    """Return when a pool that waits for another release may restart, None if none waits."""
    waits = any(pool.facts is not None and pool.facts.next for pool in seen)
    return opens_at(region.spec.engine.rollout.window, now) if waits else None


def left_pools(region: Region, seen: tuple[SeenPool, ...]) -> str:
    """Name the pools that are no longer declared and still hold engines, `""` if there are none."""
    declared = _declared(region)
    left = [f"{pool.ref.slug} ({pool.engines})" for pool in seen if pool.ref.id not in declared and pool.engines]
    if not left:
        return ""
    return f"spec.engine.pools: no longer declared, and kept because they hold engines: {', '.join(left)}"


def _declared(region: Region) -> Mapping[str, EnginePool]:
    pools = () if region.deleting else region.spec.engine.pools or ()
    return {pool_id(region.metadata.uid, pool.name): pool for pool in pools}


def _spec(pool: EnginePool, ref: EngineRef, provider: str) -> EngineSpec:
    return EngineSpec(
        ref=ref,
        region=ref.name,
        provider=provider,
        size=pool.size or "",
        storage=pool.storage.size,
        capacity=pool.engines_per_replica,
    )


def _status(pool: SeenPool) -> PoolStatus:
    facts = pool.facts
    if facts is None:
        return PoolStatus(name=pool.ref.slug, id=pool.ref.id, engines=pool.engines)
    told = facts.missing or facts.message
    return PoolStatus(name=pool.ref.slug, id=pool.ref.id, status=facts.status, engines=pool.engines, message=told or None)
