"""The deployer of a cluster: each engine runs in a pod of its own, or in a pool that holds many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.engines.comparing import alteration, covers
from tenantry.adapters.kubernetes.engines.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engines.workload import PASSWORD_KEY, namespace_of, pooled_ingress, url_of
from tenantry.adapters.local.folders import SentFacts
from tenantry.adapters.moving.links import Link
from tenantry.adapters.pools.client import Pools
from tenantry.adapters.pools.losses import PoolLosses
from tenantry.adapters.pools.server_databases import ServerDatabases
from tenantry.model.changes import MoveEngine
from tenantry.model.facts import MOVING_MARK, EngineFacts, EngineRef, EngineSpec
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Halt, Transient
from tenantry.ports import Secrets
from tenantry.rest.auth.passwords import hash_password


class PoolLookup(Protocol):
    """The deployer's view of where engines may be."""

    def of(self, ref: EngineRef) -> str:
        """The name of the region of an environment, `""` when there is no such environment."""

    def pools_of(self, ref: EngineRef) -> tuple[str, ...]:
        """The ids of the pools that may hold the engine of an environment."""

    def moves_of(self, ref: EngineRef) -> tuple[str, ...]:
        """The ids of other pools that may hold a part of a move of that engine."""

    def pools(self) -> frozenset[str]:
        """The ids of all pools that exist."""


class PlacedDeployer:
    """ports.Deployer. own: for engines with a pod of their own, and for the pods of pools. declared: of an environment.

    databases: of engines in pools on servers. They are made before their pool is asked for them, and dropped before it forgets
    the engine: killed in between, the next pass finds the rest.
    """

    provider = "Kubernetes"

    def __init__(
        self,
        own: KubernetesDeployer,
        pools: Pools,
        lookup: PoolLookup,
        secrets: Secrets,
        declared: Callable[[EngineRef], Sequence[Document]],
        databases: ServerDatabases,
    ) -> None:
        self._own = own
        self._databases = databases
        self._pools = pools
        self._lookup = lookup
        self._secrets = secrets
        self._declared = declared
        self.losses = PoolLosses(pools, lookup.pools)
        self.lead_to_api: Callable[[EngineRef], Awaitable[None]] | None = None
        """Called before an engine sleeps that requests wake; None for a host that deploys nothing."""

    async def engine(self, ref: EngineRef, at: str | None = None) -> EngineFacts | None:
        """Return the engine, wherever it runs. A pool that may hold it and does not answer raises a Transient Halt."""
        if not ref.is_pool:
            for pool in self._lookup.pools_of(ref) if at is None else filter(None, (at,)):
                facts = await self._pools.engine(pool, ref)
                if facts is not None:
                    if facts.missing:
                        self.losses.note(pool, ref, facts.missing)
                    return await self._seen(facts, pool, ref)
        if at:
            return None
        own = await self._own.engine(ref)
        return own if at is None or own is None else await self._arriving(own, ref)

    async def _arriving(self, own: EngineFacts, ref: EngineRef) -> EngineFacts:
        """Return the engine of a pod of its own, as the other place of a move: only the pod knows how far it is. Raises Halt."""
        if not own.coming or own.status != "RUNNING":
            return own
        return replace(own, coming=await self._pools.link("", ref).look())

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        """The same host in a pool and in a pod of its own."""
        return self._own.preview(region, tenant_slug, slug)

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool = False) -> None:
        """In the pool of the spec, or in a pod of its own. Raises Halt: those of KubernetesDeployer.deploy, of Pools and of
        ServerDatabases.ensure."""
        if not spec.pool:
            if spec.capacity:
                await self._databases.ensure_pool(spec.ref, spec.max_replicas)
            if spec.on_request and self.lead_to_api is not None:
                await self.lead_to_api(spec.ref)
            await self._own.deploy(spec, admin_secret, keeps_pod)
            return
        await self._databases.ensure(spec.pool, spec.ref)
        await self._pools.deploy(spec, await self._sent(spec, admin_secret))
        await self._publish(spec)

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
            await self._close(ref)
        else:
            # Also of one that does not hold it: the operator may have been killed before.
            for pool in (*self._lookup.pools_of(ref), *self._lookup.moves_of(ref)):
                await self._databases.drop(pool, ref)
        for pool in (*await self._holding(ref), *self._lookup.moves_of(ref)):
            await self._remove_ingress(pool, ref)
            await self._pools.undeploy(pool, ref)
        await self._own.undeploy(ref)

    async def _close(self, pool: EngineRef) -> None:
        """Keep the archives of an empty pool: its volume, or its database. Without any, the database goes."""
        facts, on_server = await self._own.engine(pool), self._databases.is_on_server(pool.id)
        if facts is None or facts.status == "DELETING" or (on_server and not await self._databases.has_pool(pool)):
            return
        has_archives = await self._pools.close(pool.id)
        if on_server and not has_archives:
            await self._databases.drop_pool(pool)
        elif has_archives and not on_server:
            await self._own.snapshot(pool)  # the volume outlives the pool, like that of a removed environment

    async def withdraw(self, ref: EngineRef) -> None:
        """Take the host from the engine. In a pool nothing is restarted either."""
        for pool in await self._holding(ref):
            await self._remove_ingress(pool, ref)
            await self._pools.withdraw(pool, ref)
            return
        await self._own.withdraw(ref)

    async def move(self, step: MoveEngine) -> None:
        """One step of a move. Raises Halt: those of `deploy`, of Pools and of `links`, MoveUnverified."""
        source = self._pools.link(step.source, step.spec.ref)
        match step.step:
            case "Reserve":
                await self._reserve(replace(step.spec, restoring=MOVING_MARK), step.admin_secret)
            case "Prepare":
                await self._copied(source, step)
            case "Switch":
                await self._switch(source, step)
            case "Point":
                await self._point(step)
            case "Leave":
                await self._leave(step)
            case "Cancel":
                await (self._cancel_in_pool if step.spec.pool else self._cancel_in_pod)(source, step.spec)

    async def _reserve(self, spec: EngineSpec, admin_secret: Ref) -> None:
        if spec.pool:
            await self._databases.ensure(spec.pool, spec.ref)
            await self._pools.reserve(spec, await self._sent(spec, admin_secret))
        else:
            await self._own.deploy(spec, admin_secret)

    async def _copied(self, source: Link, step: MoveEngine, earlier: bytes = b"") -> None:
        async with source.pack(earlier) as copy:
            await self._pools.link(step.spec.pool, step.spec.ref).receive(copy)

    async def _switch(self, source: Link, step: MoveEngine) -> None:
        """Killed at any line, the engine is written in one place at most: where it was until it was let go, then only there."""
        spec, target = step.spec, self._pools.link(step.spec.pool, step.spec.ref)
        sent = await self._sent(spec, step.admin_secret) if spec.pool else None
        earlier = await target.blocks()
        token = await source.freeze()
        try:
            await self._copied(source, step, earlier)
            await source.give(token)
        except Halt:
            with suppress(Halt):  # if it was let go before, it stays read-only
                await source.thaw(cancelled=False)
            raise
        await (self._pools.take(spec, sent, token) if sent is not None else target.take(token))

    async def _point(self, step: MoveEngine) -> None:
        """Two Ingresses of one host are refused, so the host leads nowhere for a moment."""
        spec, ref = step.spec, step.spec.ref
        if spec.pool:
            await self._pools.deploy(spec, await self._sent(spec, step.admin_secret))
        await (self._remove_ingress(step.source, ref) if step.source else self._own.withdraw(ref))
        await (self._publish(spec) if spec.pool else self._own.deploy(spec, step.admin_secret))

    async def _leave(self, step: MoveEngine) -> None:
        ref, pool = step.spec.ref, step.spec.pool
        assert step.source != pool
        # A pod is ready before its engine has come: the operator reaches it by its Service.
        came = pool != "" or await self._pools.link("", ref).look() == ""
        if not came or not await self._pools.serves(pool, ref):
            raise Halt(Transient("MoveUnverified", "the engine does not answer in its new place yet; its old place is kept"))
        if not step.source:
            await self._vacate(ref)
            return
        await self._databases.drop(step.source, ref)
        await self._pools.undeploy(step.source, ref)

    async def _cancel_in_pool(self, source: Link, spec: EngineSpec) -> None:
        await self._pools.cancel(spec.pool, spec.ref)
        await self._databases.drop(spec.pool, spec.ref)
        await source.thaw(cancelled=True)

    async def _cancel_in_pod(self, source: Link, spec: EngineSpec) -> None:
        """A pod that does not run is not asked, unless the engine was let go: only then may it have come there."""
        try:
            await source.thaw(cancelled=False)
        except Halt as halt:
            if halt.verdict.reason != "Moving":
                raise
            await self._pools.link("", spec.ref).cancel()
            await source.thaw(cancelled=True)
        await self._vacate(spec.ref)

    async def _vacate(self, ref: EngineRef) -> None:
        """Remove the pod of its own that an engine does not have any more. Its namespace may go by itself."""
        try:
            await self._own.undeploy(ref)
        except Halt as halt:
            if halt.verdict.reason != "EngineNamespaceDeleting":
                raise

    async def _sent(self, spec: EngineSpec, admin_secret: Ref) -> SentFacts:
        password = await self._secrets.reveal(admin_secret.namespace, admin_secret.name, PASSWORD_KEY, "environment")
        hashed = await hash_password(password, sharer=spec.ref.id)
        return SentFacts(hashed, password.fingerprint, url_of(self._own.placement(spec.region), spec.ref, spec.pool))

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

    async def _publish(self, spec: EngineSpec) -> None:
        ingress, published = pooled_ingress(spec, self._own.placement(spec.region))
        change = self._own.put if published else self._own.remove
        await change(spec.region, ingress, spec.ref)

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
