"""The order of a Source for a process that does not reconcile it: the api of a cluster derives it as the operator does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenantry.kinds.source.decide import order_of, refusal_of
from tenantry.kinds.source.observe import observe
from tenantry.kinds.source.spec import Source
from tenantry.model.syncing import SyncOrder, source_label
from tenantry.model.verdicts import Halt, Transient
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import bound_tenant
from tenantry.runtime.reconcile.cycle import PassPorts
from tenantry.runtime.reconcile.following import TrackedView

Refresh = Callable[[str], Awaitable[None]]
"""Brings the cache to the Secrets of the Tenant of that name, which it does not follow."""


async def nothing_to_read(tenant: str) -> None:
    """Of a host whose cache follows everything."""


async def current_order(ports: PassPorts, cache: Cache, refresh: Refresh, source: Source) -> SyncOrder:
    """Return the order that the operator's reconcile derives from the Source now. Raises a Halt if it is refused or gone."""
    held = cache.resource(source.ref)
    if not isinstance(held, Source) or held.metadata.uid != source.metadata.uid or held.suspended or held.deleting:
        raise Halt(Transient("SourceNotWritten", f"source {source_label(source.ref)} no longer takes writes: try again"))
    return await order_now(ports, cache, refresh, held)


async def order_now(ports: PassPorts, cache: Cache, refresh: Refresh, held: Source) -> SyncOrder:
    """Return the order of a Source as it is, also of one that is suspended. Raises a Halt if it is refused."""
    tenant = bound_tenant(held.metadata.namespace, cache)
    if tenant is not None:
        await refresh(tenant.metadata.name)
    seen = await observe(held, ports.world(TrackedView(cache)))
    refusal = refusal_of(seen)
    if refusal is not None:
        raise Halt(refusal)
    return order_of(seen)
