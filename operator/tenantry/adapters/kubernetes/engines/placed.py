"""The deployer of a cluster: each engine runs in a pod of its own, or in a pool that holds many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.engines.comparing import alteration, covers
from tenantry.adapters.kubernetes.engines.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engines.workload import PASSWORD_KEY, namespace_of, pooled_ingress, url_of
from tenantry.adapters.local.folders import SentFacts
from tenantry.adapters.pools.client import Pools
from tenantry.adapters.pools.losses import PoolLosses
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec
from tenantry.model.resource import Document, Ref
from tenantry.ports import Secrets
from tenantry.rest.auth.passwords import hash_password


class PoolLookup(Protocol):
    """The deployer's view of where engines may be."""

    def of(self, ref: EngineRef) -> str:
        """The name of the region of an environment, `""` when there is no such environment."""

    def pools_of(self, ref: EngineRef) -> tuple[str, ...]:
        """The ids of the pools that may hold the engine of an environment."""

    def pools(self) -> frozenset[str]:
        """The ids of all pools that exist."""


class PlacedDeployer:
    """ports.Deployer. own: for engines with a pod of their own, and for the pods of pools. declared: of an environment."""

    provider = "Kubernetes"

    def __init__(
        self,
        own: KubernetesDeployer,
        pools: Pools,
        lookup: PoolLookup,
        secrets: Secrets,
        declared: Callable[[EngineRef], Sequence[Document]],
    ) -> None:
        self._own = own
        self._pools = pools
        self._lookup = lookup
        self._secrets = secrets
        self._declared = declared
        self.losses = PoolLosses(pools, lookup.pools)

    async def engine(self, ref: EngineRef) -> EngineFacts | None:
        """Return the engine, wherever it runs. A pool that may hold it and does not answer raises a Transient Halt."""
        if not ref.is_pool:
            for pool in self._lookup.pools_of(ref):
                facts = await self._pools.engine(pool, ref)
                if facts is not None:
                    if facts.missing:
                        self.losses.note(pool, ref, facts.missing)
                    return await self._seen(facts, pool, ref)
        return await self._own.engine(ref)

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        """The same host in a pool and in a pod of its own."""
        return self._own.preview(region, tenant_slug, slug)

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool = False) -> None:
        """In the pool of the spec, or in a pod of its own. Raises Halt: those of KubernetesDeployer.deploy and of Pools."""
        if not spec.pool:
            await self._own.deploy(spec, admin_secret, keeps_pod)
            return
        placement = self._own.placement(spec.region)
        password = await self._secrets.reveal(admin_secret.namespace, admin_secret.name, PASSWORD_KEY, "environment")
        hashed = await hash_password(password, sharer=spec.ref.id)
        await self._pools.deploy(spec, SentFacts(hashed, password.fingerprint, url_of(placement, spec.ref, spec.pool)))
        ingress, published = pooled_ingress(spec, placement)
        change = self._own.put if published else self._own.remove
        await change(spec.region, ingress, spec.ref)

    async def snapshot(self, ref: EngineRef) -> None:
        """An archive in the pool's volume; of an engine with a pod of its own, the volume itself."""
        for pool in await self._holding(ref):
            await self._pools.snapshot(pool, ref, self._declared(ref))
            return
        await self._own.snapshot(ref)

    async def undeploy(self, ref: EngineRef) -> None:
        """Remove the engine from its pool, or its namespace. Raises a Waiting Halt: a pool holds engines (PoolInUse), or the
        namespace is going (EngineNamespaceDeleting)."""
        if ref.is_pool:
            facts = await self._own.engine(ref)
            if facts is not None and facts.status != "DELETING" and await self._pools.close(ref.id):
                await self._own.snapshot(ref)  # the volume outlives the pool, like that of a removed environment
        for pool in await self._holding(ref):
            await self._remove_ingress(pool, ref)
            await self._pools.undeploy(pool, ref)
        await self._own.undeploy(ref)

    async def withdraw(self, ref: EngineRef) -> None:
        """Take the host from the engine. In a pool nothing is restarted either."""
        for pool in await self._holding(ref):
            await self._remove_ingress(pool, ref)
            await self._pools.withdraw(pool, ref)
            return
        await self._own.withdraw(ref)

    async def changes(self) -> AsyncIterator[EngineRef]:
        """Engines and pools of this cluster of which an object changed."""
        async for ref in self._own.changes():
            yield ref

    async def followed(self) -> None:
        """As KubernetesDeployer."""
        await self._own.followed()

    async def client_of(self, region: str) -> Client | None:
        """As KubernetesDeployer."""
        return await self._own.client_of(region)

    async def _holding(self, ref: EngineRef) -> tuple[str, ...]:
        """Return the pool that holds the engine, if one does."""
        if ref.is_pool:
            return ()
        return tuple([pool for pool in self._lookup.pools_of(ref) if await self._pools.engine(pool, ref) is not None])

    async def _remove_ingress(self, pool: str, ref: EngineRef) -> None:
        region = self._lookup.of(ref)
        ingress, _ = pooled_ingress(EngineSpec(ref, region, self.provider, pool=pool), self._own.placement(region))
        await self._own.remove(region, ingress, ref)

    async def _seen(self, facts: EngineFacts, pool: str, ref: EngineRef) -> EngineFacts:
        """Return the facts of the pool with those of the cluster. spec is None if the engine's Ingress was changed."""
        region = self._lookup.of(ref)
        placement = self._own.placement(region)
        place = f"cluster/{namespace_of(pool)}/{ref.id}"
        slugs = facts.spec.ref if facts.spec is not None else ref
        altered = facts.altered or await self._altered(facts.spec, region)
        return replace(
            facts,
            url=url_of(placement, slugs, pool),
            external_id=f"{place}/engine",
            environment_external_id=place,
            spec=None if altered else facts.spec,
            altered=altered,
            pool=pool,
            next="",
        )

    async def _altered(self, spec: EngineSpec | None, region: str) -> tuple[str, ...]:
        if spec is None:
            return ()
        ingress, published = pooled_ingress(spec, self._own.placement(region))
        real = await self._own.find(region, ingress)
        if not published:
            return ("its Ingress is still there",) if real is not None else ()
        return () if real is not None and covers(real, ingress) else (alteration(real, ingress),)
