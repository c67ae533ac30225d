"""The reconcile loop and the retention of Operations, composed the same way on every host."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol

from tenantry.bootstrap.pass_ports import Ports, kept
from tenantry.hosts.left_engines import LeftEngines
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.spec import Region
from tenantry.kinds.registry import KINDS
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Ref
from tenantry.model.sharding.shards import Owns, owns_all
from tenantry.ports import OperationLogs
from tenantry.runtime.cache import Cache
from tenantry.runtime.clock import now
from tenantry.runtime.fleet import Fleet
from tenantry.runtime.operations.retention import Retention
from tenantry.runtime.quotas import TenantQuotas
from tenantry.runtime.reconcile.cycle import Cycle
from tenantry.runtime.reconcile.loop import Runtime
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.settings import Settings

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


def runtime_of(
    settings: Settings, cache: Cache, ports: Ports, owns: Owns = owns_all, others_looked: Callable[[], bool] = lambda: True
) -> Runtime:
    """Return the reconcile loop. owns, others_looked: as of Runtime, for an operator that shares the work."""
    cycle = Cycle(
        kinds=KINDS,
        cache=cache,
        ports=ports,
        now=now,
        deadline=settings.operations.deadline,
        resync_s=settings.resync.total_seconds(),
    )
    return Runtime(
        KINDS, cache, cycle, time=time.monotonic, now=now, workers=settings.workers, owns=owns, others_looked=others_looked
    )


def fleet_of(cache: Cache) -> Fleet:
    """Return the numbers of the objects of a cache, which it follows from now on."""
    return Fleet(cache, KINDS, time=time.monotonic, now=now)


def collectors_of(runtime: Runtime, fleet: Fleet, left: LeftEngines) -> tuple[Collector, ...]:
    """Return the numbers of the loop, and of the objects that it keeps, for Prometheus."""
    from tenantry.adapters.metrics.loop import LoopCollector
    from tenantry.hosts.fleet_metrics import FleetCollector, LeftEnginesCollector

    return LoopCollector(runtime.measures, tuple(KINDS)), FleetCollector(fleet), LeftEnginesCollector(left)


class ChangingEngines(Protocol):
    """Engines that change by themselves."""

    def changes(self) -> AsyncIterator[EngineRef]:
        """Yield each. Without end."""


async def follow_engines(engines: ChangingEngines, runtime: Runtime) -> None:
    """Wake the environment of each engine, and the Region of each pool, that changes by itself. Without end."""
    async for ref in engines.changes():
        runtime.wake(Ref(Region.KIND, "", ref.name) if ref.is_pool else Ref(Environment.KIND, ref.namespace, ref.name))


def retention_of(settings: Settings, writing: WritingStore, cache: Cache, logs: OperationLogs, quotas: TenantQuotas) -> Retention:
    """Return what removes Operations that need not be kept."""
    return Retention(store=writing, cache=cache, logs=logs, keep=kept(settings), now=now, kinds=KINDS, own=quotas.operations)
