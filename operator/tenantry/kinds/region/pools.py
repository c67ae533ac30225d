"""The pools of a Region: what each is to be, what exists, and what is removed. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tenantry.kinds.credentials import without_secret
from tenantry.kinds.region.rollout import opens_at
from tenantry.kinds.region.spec import CPU_TARGET, EnginePool, PoolPostgres, PoolStatus, Region
from tenantry.model.changes import Change, DeployPool, UndeployPool
from tenantry.model.facts import DefaultPool, EngineFacts, EngineRef, EngineSpec, SecretFacts
from tenantry.model.resource import SYSTEM_NAMESPACE, SecretKeyRef
from tenantry.model.verdicts import Verdict, Waiting

FIELD = "spec.engine.pools.postgres.adminSecretRef"
DEFAULT_POOL = EnginePool(name="default")


@dataclass(frozen=True)
class SeenPool:
    """A pool that exists or is declared. engines: of how many Environments it holds the engine. secret: has the URL of its
    server, None for a pool on a volume."""

    ref: EngineRef
    facts: EngineFacts | None = None
    engines: int = 0
    secret: SecretFacts | None = None

    @property
    def lacks_secret(self) -> bool:
        return self.secret is not None and self.secret.state != "Present"


def pool_id(region_uid: str, name: str, on_server: bool = False) -> str:
    """Return the id of a pool. A Region that is made again under the same name has other pools.

    So has one that declares a server for a pool that had none: the rows of its engines are in the volume.
    """
    about = f"{region_uid}/{name}/postgres" if on_server else f"{region_uid}/{name}"
    return f"pool-{hashlib.sha256(about.encode()).hexdigest()[:12]}"


def declared_pools(region: Region) -> Mapping[str, EnginePool]:
    """Return the declared pools by id, the first one first."""
    uid = region.metadata.uid
    return {pool_id(uid, pool.name, pool.postgres is not None): pool for pool in region.spec.engine.pools or ()}


def server_of(region: Region, id_: str) -> SecretKeyRef | None:
    """Return the Secret with the URL of the server of a pool, None for a pool on a volume. One that is no longer declared has the
    server that it had."""
    pool = declared_pools(region).get(id_)
    if pool is not None:
        return pool.postgres.admin_secret_ref if pool.postgres is not None else None
    return next((each.admin_secret_ref for each in region.status.pools if each.id == id_), None)


def most_replicas_of(region: Region, id_: str) -> int:
    """Return the largest number of pods that a pool may have; 1 for one that is no longer declared, or on a volume."""
    pool = declared_pools(region).get(id_)
    postgres = pool.postgres if pool is not None else None
    return max(postgres.replicas, postgres.max_replicas or 0) if postgres is not None else 1


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
    named = {pool.id: pool.name for pool in region.status.pools}
    named |= {id_: pool.name for id_, pool in declared_pools(region).items()}
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
        if spec is not None and pool.lacks_secret:
            continue  # one that runs goes on with the URL that it has
        if spec is not None and (pool.facts is None or pool.facts.spec != spec or (pool.facts.next and is_open)):
            changes.append(DeployPool(spec))
        elif spec is None and pool.facts is not None and not pool.engines:
            changes.append(UndeployPool(pool.ref))
    return tuple(changes)


def pool_statuses(region: Region, seen: tuple[SeenPool, ...]) -> tuple[PoolStatus, ...]:
    """Return the pools as the status shows them."""
    return tuple(_status(pool, server_of(region, pool.ref.id)) for pool in seen)


def pools_verdict(region: Region, seen: tuple[SeenPool, ...]) -> Verdict | None:
    """Return the verdict on a Region with a declared pool that does not run, None if all run."""
    declared = _declared(region)
    for pool in seen:
        wanted = declared.get(pool.ref.id)
        if wanted is not None and wanted.postgres is not None and pool.secret is not None and pool.lacks_secret:
            return without_secret(pool.secret, wanted.postgres.admin_secret_ref, FIELD, "region", SYSTEM_NAMESPACE)
        status = _status(pool, None)
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
    return {} if region.deleting else declared_pools(region)


def _spec(pool: EnginePool, ref: EngineRef, provider: str) -> EngineSpec:
    spec = EngineSpec(
        ref=ref,
        region=ref.name,
        provider=provider,
        size=pool.size or "",
        storage=pool.storage.size,
        capacity=pool.engines_per_replica,
    )
    if pool.postgres is None:
        return spec
    secret, (most, target) = pool.postgres.admin_secret_ref, _scaling(pool.postgres)
    return replace(
        spec,
        database_secret=secret.name,
        database_key=secret.key,
        replicas=pool.postgres.replicas,
        max_replicas=most,
        cpu_target=target,
    )


def _scaling(postgres: PoolPostgres) -> tuple[int, int]:
    """Return the most pods, and the load above which there are more. 0 for both: their number is declared."""
    return (0, 0) if postgres.max_replicas is None else (postgres.max_replicas, postgres.cpu_target or CPU_TARGET)


def _status(pool: SeenPool, server: SecretKeyRef | None) -> PoolStatus:
    facts, status = pool.facts, PoolStatus(name=pool.ref.slug, id=pool.ref.id, engines=pool.engines, admin_secret_ref=server)
    if facts is None:
        return status
    return status.model_copy(update={"status": facts.status, "message": facts.missing or facts.message or None})
