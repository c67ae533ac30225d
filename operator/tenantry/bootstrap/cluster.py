"""The platform of a cluster: how its processes are connected, and the operator, which acts. The api is in cluster_api."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import structlog

from tenantry.adapters.blobs_http import RemoteBlobs, RemoteLogs
from tenantry.adapters.engine_http import HttpEngines, TransportFor
from tenantry.adapters.keys import SigningKeys
from tenantry.adapters.kubernetes.client import Client
from tenantry.adapters.kubernetes.credentials import find_credentials
from tenantry.adapters.kubernetes.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engine_pods import CA_KEY, EnginePods, parse_engine_pods
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.kept import KeptVolumes
from tenantry.adapters.kubernetes.keys import PlatformKeys, platform_keys
from tenantry.adapters.kubernetes.lease import Lease
from tenantry.adapters.kubernetes.remote import Clusters
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.kubernetes.tenancy import KubernetesTenancy
from tenantry.adapters.kubernetes.tenancy_guard import TenancyGuard
from tenantry.adapters.kubernetes.wire import endpoint, received
from tenantry.adapters.kubernetes.workload import Placement, is_service, service_url
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.adapters.store.state_folder import derive
from tenantry.bootstrap.fetching import Fetching
from tenantry.bootstrap.foreign import foreign_rules
from tenantry.bootstrap.packages import Checking
from tenantry.bootstrap.seat import FOLLOWED, Ports, kept, now
from tenantry.hosts.kopf_host import Backoffs, KopfHost, Watched
from tenantry.hosts.recorder import Recorder
from tenantry.hosts.supervision import Supervisor, Works, supervised
from tenantry.hosts.tenant_secrets import TenantSecrets
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.namespace import Namespace
from tenantry.kinds.region.spec import Region
from tenantry.kinds.registry import KINDS, TYPES
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import EngineEndpoint, EngineRef, TenantAccess
from tenantry.model.resource import ACCESS_MARK, RESTORING, SYSTEM_NAMESPACE, Ref
from tenantry.model.verdicts import Forbidden, Halt, NotFound, Transient
from tenantry.ports import Fetcher, OperationLogs, Packages, Sources
from tenantry.runtime.cache import Cache
from tenantry.runtime.cycle import Cycle
from tenantry.runtime.declared import declared_of
from tenantry.runtime.first_user import ensure_first_user
from tenantry.runtime.retention import Retention
from tenantry.runtime.runtime import Runtime
from tenantry.runtime.writing import WritingStore
from tenantry.settings import Settings, parse_networks

ISSUER = "tenantry"
RETENTION_S = 60.0
ENGINES_LISTED_S = 30.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Connected:
    """What both processes have: a way to the API server, the cache and the platform's keys."""

    clusters: Clusters
    feed: KubernetesFeed
    cache: Cache
    writing: WritingStore
    signing: SigningKeys
    fingerprint_key: bytes
    mark_key: bytes
    engines: HttpEngines
    deployer: KubernetesDeployer
    volumes: KeptVolumes

    @property
    def tenant_secrets(self) -> TenantSecrets:
        """What is not followed where Secrets are not."""
        return TenantSecrets(self.clusters.own, self.cache)

    def fetching(self, settings: Settings, packages: Packages, scratch: Path, ended: Callable[[Ref], None]) -> Fetching:
        """What the operator fetches. ended: hears of each object with news."""
        secrets = StoreSecrets(self.writing, self.cache.document, self.fingerprint_key)
        return Fetching.of(settings, packages, scratch, scratch, self.writing, self.cache, secrets, ended, self.engines)

    async def guard(self) -> None:
        """Keeps the rights in tenants' namespaces as they are to be, without end."""
        guard = TenancyGuard(self.clusters.own, self.writing, Declared(self.cache).given_to, SYSTEM_NAMESPACE)
        await guard.run()

    async def let_go(self) -> None:
        """Lets kept volumes go when their time is over, without end."""
        await self.volumes.run(self.deployer.client_of, Declared(self.cache).restoring, RETENTION_S)

    def ports(self, packages: Packages, logs: OperationLogs, fetcher: Fetcher, sources: Sources) -> Ports:
        """The ports of one pass."""
        return Ports(
            store=self.writing,
            tenancy=lambda through: KubernetesTenancy(through, self.clusters.own, SYSTEM_NAMESPACE),
            fingerprint_key=self.fingerprint_key,
            deployer=self.deployer,
            engines=self.engines,
            packages=packages,
            logs=logs,
            fetcher=fetcher,
            sources=sources,
        )


@asynccontextmanager
async def connect(settings: Settings, scratch: Path, *, acts: bool = True) -> AsyncIterator[Connected]:
    """Until the end of the block. Waits for the API server; raises a Halt where it refuses.

    acts: may it read Secrets everywhere, as the operator? Else it follows the platform's alone, and reads none of engines.
    """
    async with AsyncExitStack() as stack:
        client = Client(find_credentials())
        clusters = Clusters(client)
        stack.push_async_callback(clusters.close)
        store = KubernetesStore(client)
        cache = Cache(TYPES)
        declared = Declared(cache)
        writing = WritingStore(store, cache)
        master, signing = await _keys(store)
        fingerprint_key = derive(master, "fingerprint")
        secrets = StoreSecrets(writing, cache.document, fingerprint_key)
        transport_for = _by_proxy(settings.cluster.engine_proxy)
        engines = HttpEngines(
            signing,
            secrets,
            Checking.of(settings).inspect,
            scratch,
            transport_for,
            declared.address_of,
            foreign_rules(settings.outbound, cache),
            largest=settings.packages.size,
        )
        stack.push_async_callback(engines.aclose)
        volumes = KeptVolumes(client, partial(declared_of, cache), settings.backups.keep)
        deployer = KubernetesDeployer(
            clusters, declared, secrets, signing.jwks, _placement(settings), volumes, reads_secrets=acts
        )
        mark_key = derive(master, "request")
        feed = KubernetesFeed(client, only_in={} if acts else {"Secret": SYSTEM_NAMESPACE})
        yield Connected(clusters, feed, cache, writing, signing, fingerprint_key, mark_key, engines, deployer, volumes)


async def _keys(store: KubernetesStore) -> PlatformKeys:
    """The platform's keys, as soon as the API server answers: who ended instead would be started less and less often."""
    pauses = iter(Backoffs())
    while True:
        try:
            return await platform_keys(store, ISSUER)
        except Halt as halt:
            # One that has just started refuses everybody until it has read its roles.
            if isinstance(halt, NotFound) or (not isinstance(halt.verdict, Transient) and not isinstance(halt, Forbidden)):
                raise
            log.warning("waits for the API server", error=str(halt))
        await asyncio.sleep(next(pauses))


@dataclass(frozen=True)
class Declared:
    """What adapters ask of declared things."""

    cache: Cache

    def named(self, name: str) -> Region | None:
        """The Region, or None."""
        found = self.cache.resource(Ref(Region.KIND, "", name))
        return found if isinstance(found, Region) else None

    def of(self, ref: EngineRef) -> str:
        """The name of the region of an environment, `""` when there is no such environment."""
        found = self.cache.resource(Ref(Environment.KIND, ref.namespace, ref.name))
        return found.spec.region if isinstance(found, Environment) else ""

    def address_of(self, endpoint: EngineEndpoint) -> str:
        """An engine of this cluster is reached by its Service, whatever its public name; others where people reach them."""
        environment = self._environment(endpoint.environment_id)
        region = self.named(environment.spec.region) if environment else None
        remote = region is not None and region.spec.kubernetes is not None and region.spec.kubernetes.kubeconfig_secret_ref
        if endpoint.admin_secret is not None or remote:
            return endpoint.url
        return service_url(endpoint.environment_id)

    def given_to(self, namespace: str) -> tuple[str, TenantAccess] | None:
        """The tenant that is bound to a namespace, and the access that this is marked to have; None while it has none."""
        found = self.cache.resource(Ref(Namespace.KIND, "", namespace))
        mark = "" if found is None or found.deleting else found.metadata.annotations.get(ACCESS_MARK, "")
        for tenant in self.cache.resources(Tenant.KIND, by=f"namespace={namespace}") if mark else ():
            bound = tenant.status.namespace if isinstance(tenant, Tenant) and not tenant.deleting else None
            if bound is not None and bound.name == namespace and tenant.spec.access.facts.mark == mark:
                return tenant.metadata.name, tenant.spec.access.facts
        return None

    def restoring(self) -> frozenset[str]:
        """The ids of the environments whose restore has not ended."""
        found = self.cache.resources(Environment.KIND)
        return frozenset(one.id for one in found if isinstance(one, Environment) and RESTORING in one.metadata.annotations)

    def has_engine(self, id_: str) -> bool:
        """Has the environment of that id an engine that once answered?"""
        environment = self._environment(id_)
        return environment is not None and environment.status.phase == "READY"

    def _environment(self, id_: str) -> Environment | None:
        found = (self.cache.resource(Ref(Environment.KIND, *name)) for name in self.cache.names(Environment.KIND, by=f"id={id_}"))
        return next((one for one in found if isinstance(one, Environment)), None)


def _by_proxy(proxy: str) -> TransportFor:
    """Services of this cluster are reached by the proxy, where there is one; everything else without."""
    if not proxy:
        return lambda url: None
    transport = httpx.AsyncHTTPTransport(proxy=proxy)
    return lambda url: transport if is_service(url) else None


def _placement(settings: Settings) -> Placement:
    cluster = settings.cluster
    facade = settings.public_url.rstrip("/") or cluster.api_url
    return Placement(
        cluster.image,
        cluster.image_pull_policy,
        ISSUER,
        facade,
        SYSTEM_NAMESPACE,
        http=settings.outbound.http,
        networks=tuple(map(str, parse_networks(settings.outbound.networks))),
        proxies=tuple(map(str, parse_networks(settings.http.proxies))),
        pods=_engine_pods(cluster.engines),
    )


def _engine_pods(folder: Path | None) -> EnginePods:
    """Raises OSError, Invalid."""
    if folder is None:
        return EnginePods()
    bundle = folder / CA_KEY
    return parse_engine_pods((folder / "engines.json").read_text("utf-8"), bundle.read_text("utf-8") if bundle.exists() else "")


async def run_operator(settings: Settings) -> None:
    """Stands by, acts while it holds the lease, and lets it go at the end. Raises LeaseLost, Halt; ends when cancelled."""
    with tempfile.TemporaryDirectory(prefix="tenantry-operator-") as folder:
        async with connect(settings, Path(folder)) as connected:
            await _operate(settings, connected, Path(folder))


async def _operate(settings: Settings, connected: Connected, scratch: Path) -> None:
    cluster = settings.cluster
    blobs = RemoteBlobs(cluster.api_url, connected.signing, scratch)
    logs, cache = RemoteLogs(blobs), connected.cache
    fetching = connected.fetching(settings, blobs, scratch, lambda ref: runtime.look(ref))
    cycle = Cycle(KINDS, cache, connected.ports(blobs, logs, *fetching.both), now, settings.operations.deadline)
    runtime = Runtime(KINDS, cache, cycle, time=time.monotonic, now=now, workers=settings.workers)
    host = _host(settings, connected, runtime)
    pod = cluster.pod or socket.gethostname()
    lease = Lease(connected.clusters.own, cluster.namespace, cluster.lease, pod)
    recorder = Recorder(connected.clusters.own, cache, pod, time=time.monotonic, now=now)
    retention = Retention(connected.writing, cache, logs, kept(settings), now, KINDS)
    works: Works = {"events": recorder.run, "retention": partial(retention.run, RETENTION_S)}

    async def act() -> None:
        try:
            await lease.acquire()
            await ensure_first_user(connected.writing, None, settings.cluster.admin_secret)
            host.lead()
            async with supervised() as supervisor:
                for name, work in {**works, "guard": connected.guard, "volumes": connected.let_go}.items():
                    supervisor.run(work, name)
                await lease.keep()
        finally:
            # Nothing of ours may be under way once another can have the lease.
            await host.rest()
            await fetching.aclose()
            await lease.release()

    following = Supervisor()
    following.run(partial(_follow_engines, connected.deployer, runtime), "engines")
    try:
        await host.start()
        with suppress(TimeoutError):  # then each is asked for until they have been listed
            await asyncio.wait_for(connected.deployer.followed(), ENGINES_LISTED_S)
        await _until_first(asyncio.create_task(act()), asyncio.create_task(host.ended()))
    finally:
        await following.stop()
        await host.stop()
        await blobs.aclose()


def _host(settings: Settings, connected: Connected, runtime: Runtime) -> KopfHost:
    return KopfHost(
        connected.feed,
        connected.cache,
        runtime,
        [Watched(kind, at.api_version, at.plural, at.selector) for kind, at in ((kind, endpoint(kind)) for kind in FOLLOWED)],
        received,
        health=f"http://{settings.cluster.health}/healthz",
        resync_s=settings.resync.total_seconds(),
    )


async def _until_first(*works: asyncio.Task[None]) -> None:
    """Runs until one of them ends, and ends the others. Raises what ended it."""
    try:
        ended, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
    for work in ended:
        work.result()


async def _follow_engines(deployer: KubernetesDeployer, runtime: Runtime) -> None:
    """An engine that changed by itself has its environment looked at."""
    async for ref in deployer.changes():
        runtime.wake(Ref("Environment", ref.namespace, ref.name))
