"""Decide on a Region: it exists, and stays while environments use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tenantry.kinds.region.pools import SeenPool, left_pools, pool_changes, pool_statuses, pools_until, pools_verdict
from tenantry.kinds.region.rollout import Wave, Waves, next_wave
from tenantry.kinds.region.spec import Region, RegionStatus, RolloutStatus
from tenantry.model.changes import GrantTurn
from tenantry.model.decision import Decision
from tenantry.model.resource import Blocker, BoundTenant, Deletion, Ref
from tenantry.model.verdicts import Gone, Ready, Waiting
from tenantry.model.wording import agreeing, counted

NO_WAVES = Waves()


@dataclass(frozen=True)
class Observed:
    """environments: how many use it. users: some of them, while it is being deleted. host_provider: what this host runs
    engines on. tenants: of those that may use it, the uids by name. waves: of the environments, those whose engines restart.
    pools: those that are declared or exist."""

    region: Region
    environments: int
    host_provider: str
    tenants: Mapping[str, str] = field(default_factory=dict)
    waves: Waves = NO_WAVES
    pools: tuple[SeenPool, ...] = ()
    users: tuple[Ref, ...] = ()


def decide(seen: Observed, now: datetime) -> Decision[RegionStatus]:
    """Ready while it is declared; gone once no environment uses it."""
    region = seen.region
    provider = seen.host_provider if region.spec.provider == "Host" else region.spec.provider
    bound = _bound(seen)
    wave = next_wave(region.spec.engine.rollout, seen.waves, now)
    update = {"provider": provider, "environments": seen.environments, "tenants": bound, "deletion": None}
    update |= {"pools": pool_statuses(region, seen.pools)}
    status = region.status.model_copy(update=update | {"rollout": _rollout(seen.waves, wave)})
    granted = tuple(GrantTurn(Ref("Environment", *each)) for each in wave.granted)
    pools = pool_changes(region, seen.pools, provider, now)
    if not region.deleting:
        told = "; ".join(filter(None, (_replaced(bound, seen.tenants), left_pools(region, seen.pools))))
        until = min(filter(None, (wave.until, pools_until(region, seen.pools, now))), default=None)
        verdict = pools_verdict(region, seen.pools) or Ready(message=told, until=until)
        return Decision(status, verdict, changes=(*granted, *pools))
    if seen.environments == 0:
        return Decision(status, Gone(), changes=pools)
    since = region.metadata.deletion_timestamp or now
    blockers = tuple(
        Blocker(object=str(user), reason="InUse", since=since, resolve=f"delete it, if nobody needs it: `tenantry delete {user}`")
        for user in seen.users
    )
    status = status.model_copy(update={"deletion": Deletion(blockers=blockers)})
    told = f"{counted(seen.environments, 'environment')} {agreeing(seen.environments, 'uses')} it"
    return Decision(status, Waiting("InUse", told, wave.until), changes=granted)


def _rollout(waves: Waves, wave: Wave) -> RolloutStatus | None:
    if not waves.waiting and not waves.turns:
        return None
    restarting = sorted(f"{each.name.namespace}/{each.name.name}" for each in waves.turns)
    return RolloutStatus(waiting=waves.waiting, restarting=restarting, held=wave.held or None)


def _bound(seen: Observed) -> tuple[BoundTenant, ...]:
    """Each name is bound when its Tenant is first seen, and stays bound while the declaration has it: a later Tenant of that
    name is let in by taking the name out, and putting it in again."""
    held = {each.name: each.uid for each in seen.region.status.tenants}
    named = {name: held.get(name) or seen.tenants.get(name) for name in seen.region.spec.tenants or ()}
    return tuple(BoundTenant(name=name, uid=uid) for name, uid in sorted(named.items()) if uid)


def _replaced(bound: tuple[BoundTenant, ...], tenants: Mapping[str, str]) -> str:
    names = [each.name for each in bound if tenants.get(each.name, each.uid) != each.uid]
    if not names:
        return ""
    return (
        f"spec.tenants: {', '.join(names)} may not use it: the Tenant of that name was deleted, and another has the name; "
        "take the name out of the list, and add it again, to let the new one in"
    )
