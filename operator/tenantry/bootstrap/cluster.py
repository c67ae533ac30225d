"""The platform of a cluster: how its processes are connected, and the operator, which acts. The api is in cluster_api."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import structlog
from prometheus_client import CollectorRegistry

from tenantry.adapters.blobs_http import RemoteBlobs, RemoteLogs
from tenantry.adapters.engine.http import HttpEngines, TransportFor
from tenantry.adapters.engine.transport import EngineTransport
from tenantry.adapters.keys import SigningKeys
from tenantry.adapters.kubernetes.client.credentials import ServerAccess, find_credentials
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.wire import endpoint, received
from tenantry.adapters.kubernetes.definitions import require_definitions
from tenantry.adapters.kubernetes.engines.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engines.inventory import held_engines
from tenantry.adapters.kubernetes.engines.kept_volumes import KeptVolumes
from tenantry.adapters.kubernetes.engines.placed import PlacedDeployer
from tenantry.adapters.kubernetes.engines.pods import CA_KEY, EnginePods, parse_engine_pods
from tenantry.adapters.kubernetes.engines.remote import Clusters
from tenantry.adapters.kubernetes.engines.workload import Placement, is_service, service_url
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.keys import platform_keys
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.kubernetes.tenancy.guard import TenancyGuard
from tenantry.adapters.kubernetes.tenancy.namespaces import KubernetesTenancy
from tenantry.adapters.kubernetes.waking.slice_keeper import SliceKeeper
from tenantry.adapters.metrics.cluster import ClientCollector, LeaderCollector
from tenantry.adapters.metrics.registry import registry_of
from tenantry.adapters.pools.client import Pools
from tenantry.adapters.pools.server_databases import ServerDatabases
from tenantry.adapters.store.secrets import StoreSecrets, by_kubectl
from tenantry.adapters.store.state_folder import derive
from tenantry.bootstrap.fetching import Fetching
from tenantry.bootstrap.foreign import foreign_rules
from tenantry.bootstrap.packages import Checking
from tenantry.bootstrap.pass_ports import Ports, quotas_of
from tenantry.bootstrap.reconciling import collectors_of, fleet_of, follow_engines, retention_of, runtime_of
from tenantry.hosts.acting import ActingParts, LeasePlace, ShareOfWork, share_of_work
from tenantry.hosts.declared_objects import DeclaredObjects
from tenantry.hosts.kopf_host import Backoffs, KopfHost, Watched
from tenantry.hosts.left_engines import LeftEngines
from tenantry.hosts.metrics_endpoint import metrics_served
from tenantry.hosts.recorder import Recorder
from tenantry.hosts.shared_work import Background
from tenantry.hosts.supervision import Supervisor, until_first
from tenantry.hosts.tenant_secrets import TenantSecrets
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.registry import FOLLOWED, TYPES
from tenantry.model.facts import DefaultPool
from tenantry.model.quotas import Quotas
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tenantry.model.sharding.shards import Owns
from tenantry.model.verdicts import Forbidden, Halt, MayAct, NotFound, Transient
from tenantry.ports import Fetcher, OperationLogs, Packages, Sources
from tenantry.rest.release import release_label
from tenantry.runtime.cache import Cache
from tenantry.runtime.clock import now
from tenantry.runtime.environment_declaration import declared_of
from tenantry.runtime.first_user import ensure_first_user
from tenantry.runtime.quotas import TenantQuotas
from tenantry.runtime.reconcile.loop import Runtime
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.settings import ClusterSettings, Settings, parse_networks, parse_origins

ISSUER = "tenantry"
RETENTION_S = 60.0
ENGINES_LISTED_S = 30.0

log = structlog.get_logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Connected:
    """The shared parts of both processes: a client of the API server, the cache and the platform's keys."""

    clusters: Clusters
    feed: KubernetesFeed
    cache: Cache
    writing: WritingStore
    signing: SigningKeys
    fingerprint_key: bytes
    mark_key: bytes
    engines: HttpEngines
    deployer: PlacedDeployer
    volumes: KeptVolumes
    quotas: Quotas
    default_pool: DefaultPool

    @cached_property
    def left_engines(self) -> LeftEngines:
        """Return the count of this cluster's engines without an Environment."""
        return LeftEngines(partial(held_engines, self.clusters.own), self.cache)

    @property
    def tenant_secrets(self) -> TenantSecrets:
        """Return the Secrets of tenants, which a process without a watch of Secrets reads directly."""
        return TenantSecrets(self.clusters.own, self.cache)

    def fetching(self, settings: Settings, packages: Packages, scratch: Path, ended: Callable[[Ref], None]) -> Fetching:
        """Return the operator's fetches. ended: called with each object that has news."""
        secrets = StoreSecrets(self.writing, self.cache.document, self.fingerprint_key)
        return Fetching.of(
            settings=settings,
            packages=packages,
            folder=scratch,
            home=scratch,
            writing=self.writing,
            cache=self.cache,
            secrets=secrets,
            ended=ended,
            engines=self.engines,
        )

    async def guard(self) -> None:
        """Keeps the rights in tenants' namespaces as they are to be, without end."""
        guard = TenancyGuard(self.clusters.own, self.writing, DeclaredObjects(self.cache).granted_in, SYSTEM_NAMESPACE)
        await guard.run()

    async def let_go(self) -> None:
        """Lets kept volumes go when their time is over, without end."""
        await self.volumes.run(self.deployer.client_of, DeclaredObjects(self.cache).restoring, RETENTION_S)

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
            quotas=self.quotas,
            default_pool=self.default_pool,
            remedy=by_kubectl,
        )


@asynccontextmanager
async def connect(settings: Settings, scratch: Path, check: MayAct | None = None) -> AsyncIterator[Connected]:
    """Until the end of the block. Waits for the API server; raises a Halt where it refuses.

    check: of the operator, which reads Secrets everywhere. Another process follows those of the platform alone.
    """
    async with AsyncExitStack() as stack:
        client = Client(find_credentials())
        clusters = Clusters(client)
        stack.push_async_callback(clusters.close)
        store = KubernetesStore(client)
        cache = Cache(TYPES)
        declared = DeclaredObjects(cache)
        writing = WritingStore(store, cache)
        await _patient(partial(require_definitions, client))
        master, signing = await _patient(partial(platform_keys, store, ISSUER))
        fingerprint_key = derive(master, "fingerprint")
        secrets = StoreSecrets(writing, cache.document, fingerprint_key)
        engines = await stack.enter_async_context(aclosing(_engines(settings, signing, secrets, scratch, declared, check=check)))
        archives = TenantQuotas(cache, quotas_of(settings)).check_archive
        volumes = KeptVolumes(client, partial(declared_of, cache), settings.backups.keep, archives)
        pools = Pools(signing, service_url, _by_proxy(settings.cluster.engine_proxy), check)
        stack.push_async_callback(pools.aclose)
        secret = derive(master, "pools").hex()
        deployer = _deployer(
            settings, clusters, declared, secrets, pools, keys=signing, volumes=volumes, secret=secret, check=check
        )
        yield Connected(
            clusters=clusters,
            feed=KubernetesFeed(client, only_in={} if check is not None else {"Secret": SYSTEM_NAMESPACE}),
            cache=cache,
            writing=writing,
            signing=signing,
            fingerprint_key=fingerprint_key,
            mark_key=derive(master, "request"),
            engines=engines,
            deployer=deployer,
            volumes=volumes,
            quotas=quotas_of(settings),
            default_pool=settings.cluster.default_pool,
        )


async def _patient(ask: Callable[[], Awaitable[T]]) -> T:
    """Return the answer, as soon as the API server gives it: who ended instead would be started less and less often."""
    pauses = iter(Backoffs())
    while True:
        try:
            return await ask()
        except Halt as halt:
            # One that has just started refuses everybody until it has read its roles.
            if isinstance(halt, NotFound) or (not isinstance(halt.verdict, Transient) and not isinstance(halt, Forbidden)):
                raise
            log.warning("waits for the API server", error=str(halt))
        await asyncio.sleep(next(pauses))


def _engines(
    settings: Settings,
    signing: SigningKeys,
    secrets: StoreSecrets,
    scratch: Path,
    declared: DeclaredObjects,
    check: MayAct | None,
) -> HttpEngines:
    return HttpEngines(
        signer=signing,
        secrets=secrets,
        inspect=Checking.of(settings).inspect,
        scratch=scratch,
        transport_for=_by_proxy(settings.cluster.engine_proxy),
        address_of=declared.address_of,
        rules_for=foreign_rules(settings.outbound, declared.cache),
        largest=settings.packages.size,
        check=check,
    )


def _deployer(
    settings: Settings,
    clusters: Clusters,
    declared: DeclaredObjects,
    secrets: StoreSecrets,
    pools: Pools,
    *,
    keys: SigningKeys,
    volumes: KeptVolumes,
    secret: str,
    check: MayAct | None,
) -> PlacedDeployer:
    own = KubernetesDeployer(
        clusters=clusters,
        regions=declared,
        secrets=secrets,
        jwks=keys.jwks,
        base=_placement(settings),
        kept=volumes,
        acts=check is not None,
        secret=secret,
    )
    databases = ServerDatabases(declared, secrets, secret, check)
    documents = partial(declared_of, declared.cache)
    return PlacedDeployer(own, pools, lookup=declared, secrets=secrets, declared=documents, databases=databases)


def _by_proxy(proxy: str) -> TransportFor:
    """Services of this cluster are reached by the proxy, where there is one; everything else without."""
    direct = EngineTransport()
    through = EngineTransport(proxy) if proxy else direct
    return lambda url: through if is_service(url) else direct


def _placement(settings: Settings) -> Placement:
    cluster = settings.cluster
    facade = settings.public_url.rstrip("/") or cluster.api_url
    return Placement(
        image=cluster.image,
        pull_policy=cluster.image_pull_policy,
        issuer=ISSUER,
        facade_url=facade,
        system_namespace=SYSTEM_NAMESPACE,
        http=settings.outbound.http,
        networks=tuple(map(str, parse_networks(settings.outbound.networks))),
        proxy=settings.outbound.proxy,
        proxies=tuple(map(str, parse_networks(settings.http.proxies))),
        origins=parse_origins(settings.http.origins),
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
        async with connect(settings, Path(folder), check=lambda: acting.check()) as connected:
            cluster = settings.cluster
            place = LeasePlace(cluster.namespace, cluster.lease, _pod(cluster))
            release = f"{release_label()} {cluster.image}"  # both decide what a pass makes of an engine
            acting = share_of_work(connected.clusters.own, place, cluster.shards, release)
            await _operate(settings, connected, acting, Path(folder))


async def _operate(settings: Settings, connected: Connected, acting: ShareOfWork, scratch: Path) -> None:
    cluster, cache = settings.cluster, connected.cache
    blobs = RemoteBlobs(cluster.api_url, connected.signing, scratch)
    logs = RemoteLogs(blobs)
    fetching = connected.fetching(settings, blobs, scratch, lambda ref: runtime.look(ref))
    runtime = runtime_of(settings, cache, connected.ports(blobs, logs, *fetching.both), acting.owns, acting.others_looked)
    host = _host(settings, connected, runtime)
    parts = ActingParts(
        host=host,
        runtime=runtime,
        cache=cache,
        fetches=fetching,
        background=_background(settings, connected, runtime, logs, acting.owns),
        prepare=partial(ensure_first_user, connected.writing, None, cluster.admin_secret),
    )

    async def act() -> None:
        try:
            await acting.act(parts)
        finally:
            # Nothing of ours may be under way once another can have the lease.
            await host.rest()
            await fetching.aclose()
            await acting.leave()

    following = Supervisor()
    following.run(partial(follow_engines, connected.deployer, runtime), "engines")
    try:
        async with metrics_served(cluster.metrics, _numbers(connected, runtime, cluster.lease, acting)):
            await host.start()
            with suppress(TimeoutError):  # then each is asked for until they have been listed
                async with asyncio.timeout(ENGINES_LISTED_S):
                    await connected.deployer.followed()
            await until_first(asyncio.create_task(act()), asyncio.create_task(host.ended()))
    finally:
        await following.stop()
        await host.stop()
        await blobs.aclose()


def _pod(cluster: ClusterSettings) -> str:
    return cluster.pod or socket.gethostname()


def _background(settings: Settings, connected: Connected, runtime: Runtime, logs: OperationLogs, owns: Owns) -> Background:
    own, cache, pod = connected.clusters.own, connected.cache, _pod(settings.cluster)
    retention = retention_of(settings, connected.writing, cache, logs, TenantQuotas(cache))
    recorder = Recorder(own, cache, pod, time=time.monotonic, now=now, owns=owns)
    slices = SliceKeeper(
        own, SYSTEM_NAMESPACE, DeclaredObjects(cache), owns=lambda ref: owns(Ref(Environment.KIND, ref.namespace, ref.name))
    )
    connected.deployer.lead_to_api = slices.lead_to_api  # also before an engine falls asleep
    losses = partial(follow_engines, connected.deployer.losses, runtime)
    return Background(
        everywhere={"events": recorder.run, "losses in pools": losses},
        by_shards={"slices of engines that sleep": slices.run},
        platform={
            "retention": partial(retention.run, RETENTION_S),
            "guard": connected.guard,
            "volumes": connected.let_go,
            "left engines": connected.left_engines.run,
        },
    )


def _numbers(connected: Connected, runtime: Runtime, lease: str, acting: ShareOfWork) -> CollectorRegistry:
    """Return what the operator shows to Prometheus."""
    client = ClientCollector(connected.clusters.own.requests)
    leader = LeaderCollector(lease, lambda: acting.held, lambda: acting.count)
    return registry_of((*collectors_of(runtime, fleet_of(connected.cache), connected.left_engines), client, leader))


def _host(settings: Settings, connected: Connected, runtime: Runtime) -> KopfHost:
    return KopfHost(
        feed=connected.feed,
        cache=connected.cache,
        runtime=runtime,
        watched=[
            Watched(kind, at.api_version, at.plural, at.selector) for kind, at in ((kind, endpoint(kind)) for kind in FOLLOWED)
        ],
        access=_access,
        normal=received,
        health=f"http://{settings.cluster.health}/healthz",
        resync_s=settings.resync.total_seconds(),
    )


async def _access() -> ServerAccess:
    return await find_credentials().access()
