"""The labelled Secrets of tenants' namespaces, read into the cache when somebody is about to look at them.

The api may read Secrets only in namespaces of tenants, so it can neither list nor watch those of all. A watch for each namespace
would be a connection for each tenant. A plan and a write to the Source of a tenant are rare, and read them anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.hosts.standalone import listed
from tenantry.kinds.tenancy import bindings
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import Ref, ref_of
from tenantry.model.verdicts import Forbidden
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import bound_tenant

log = structlog.get_logger(__name__)

KIND = "Secret"
AT_ONCE = 16


class TenantSecrets:
    """Reads Secrets of tenants' namespaces into a cache."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache

    async def refresh(self, tenant: str) -> None:
        """Bring the cache to the Secrets of that Tenant's namespace. Raises Halt."""
        held = self._cache.resource(Ref(Tenant.KIND, "", tenant))
        await self.read([namespace for namespace, _ in bindings((held,))])

    async def read(self, namespaces: Collection[str] | None) -> None:
        """Bring the cache to the Secrets of those namespaces, and of no others than tenants' own, or (None) of all tenants.

        Raises Halt.
        """
        places = asyncio.Semaphore(AT_ONCE)

        async def one(namespace: str) -> None:
            async with places:
                await self._read(namespace)

        if namespaces is None:
            found = [namespace for namespace, _ in bindings(self._cache.resources(Tenant.KIND))]
        else:
            found = [name for name in namespaces if bound_tenant(name, self._cache) is not None]
        await asyncio.gather(*map(one, found))

    async def _read(self, namespace: str) -> None:
        """One that is being opened or removed has no Secrets for us: its Tenant is not Ready."""
        try:
            documents, version = await listed(KubernetesFeed(self._client, only_in={KIND: namespace}), KIND)
        except Forbidden as refused:
            log.warning("secrets of a tenant cannot be read", namespace=namespace, error=str(refused))
            return
        there = set()
        for document in documents:
            there.add(ref_of(document))
            self._cache.absorb(document)
        held = tuple(self._cache.entries(KIND, namespace))
        for entry in (entry for ref, entry in held if ref not in there and entry.version <= int(version)):
            self._cache.remove(entry.document())
