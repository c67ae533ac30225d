"""The api of a cluster: the facade over its API server, in a process without passes; the operator needs nothing of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import structlog
from obstore.store import from_url
from starlette.types import ASGIApp

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.blobs_object import ObjectBlobs
from tenantry.adapters.kubernetes.waking.own_pods import OwnPods
from tenantry.adapters.logs import BlobLogs
from tenantry.adapters.metrics.cluster import ClientCollector
from tenantry.adapters.metrics.operator import OperatorNumbers
from tenantry.adapters.overlay.packages import NoFetches, PlannedSources
from tenantry.adapters.sources.documents import read_text
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.api.app import create_app
from tenantry.api.facade import Facade
from tenantry.api.platform.observing import numbers_of
from tenantry.api.waking.activator import Activator
from tenantry.api.waking.asking import ask_to_wake
from tenantry.api.waking.forwarding import Forwarder
from tenantry.bootstrap.cluster import Connected, connect
from tenantry.bootstrap.foreign import planned_engines
from tenantry.bootstrap.packages import Checking, StoredPackages
from tenantry.bootstrap.pass_ports import Ports
from tenantry.bootstrap.planning import Overlays
from tenantry.bootstrap.reconciling import fleet_of
from tenantry.bootstrap.sign_in import trusted
from tenantry.bootstrap.source_writing import SourceBranches, SourceWriting
from tenantry.bootstrap.sources import budget_of
from tenantry.console.app import add_console
from tenantry.hosts.declared_objects import DeclaredObjects
from tenantry.hosts.metrics_endpoint import metrics_served
from tenantry.hosts.standalone import following
from tenantry.hosts.supervision import supervised
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import FOLLOWED, KINDS
from tenantry.model.verdicts import Halt
from tenantry.rest.uploads import Uploads
from tenantry.runtime.cache import Cache
from tenantry.runtime.clock import now
from tenantry.runtime.following.clones import SourceClones
from tenantry.runtime.health import PlatformMeasures
from tenantry.runtime.planning.planner import Planner
from tenantry.settings import Settings

SWEEP_S = 3600.0

log = structlog.get_logger(__name__)


class ServedApi(NamedTuple):
    """The applications of the process: that of the facade, and that which wakes engines on request, for an address of its own."""

    facade: ASGIApp
    activator: ASGIApp


@asynccontextmanager
async def open_api(settings: Settings) -> AsyncIterator[ServedApi]:
    """The facade over the cluster, its cache complete and followed until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="tenantry-api-") as folder:
        async with connect(settings, Path(folder)) as connected:
            stored = await asyncio.to_thread(_stored, connected.cache, settings, Path(folder))
            numbers = OperatorNumbers(settings.cluster.operator_metrics, tuple(KINDS))
            facade, clones = _facade(settings, connected, stored, Path(folder))
            if settings.cluster.operator_metrics:
                facade = replace(facade, loop=numbers.loop)
            async with (
                aclosing(numbers),
                supervised() as supervisor,
                following(connected.feed, connected.cache, FOLLOWED, supervisor),
            ):
                supervisor.run(clones.run, "source clones")
                if isinstance(stored.files, ObjectBlobs):  # a folder is swept when the last holder lets go
                    supervisor.run(partial(_sweep, stored.files), "packages")
                async with (
                    metrics_served(settings.cluster.metrics, numbers_of(facade)),
                    _activator(settings, connected) as activator,
                ):
                    yield ServedApi(create_app(facade, add_console), activator)


@asynccontextmanager
async def _activator(settings: Settings, connected: Connected) -> AsyncIterator[Activator]:
    """Return the application that wakes engines on request, until the end of the block."""
    proxy = settings.cluster.engine_proxy
    # No connection is kept: its address may be another pod's when it is used again.
    transport = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0), proxy=proxy or None)
    async with transport:
        yield Activator(
            connected.cache,
            OwnPods(connected.clusters.own, transport, services=bool(proxy)),
            partial(ask_to_wake, connected.writing),
            Forwarder(transport, proxied=bool(proxy)),
        )


def _facade(
    settings: Settings, connected: Connected, stored: StoredPackages[FolderBlobs | ObjectBlobs], scratch: Path
) -> tuple[Facade, SourceClones]:
    """Return the facade, and the clones of the sources that it writes to."""
    logs = BlobLogs(stored.files)
    ports = connected.ports(stored.limited, logs, NoFetches(), PlannedSources())
    planner = _planner(connected, ports, stored.checking, settings)
    secrets = StoreSecrets(connected.writing, connected.cache.document, connected.fingerprint_key)
    writing = _writing(settings, connected, ports, secrets, scratch)
    facade = Facade(
        store=connected.writing,
        writers=writing.writers,
        cache=connected.cache,
        packages=stored.limited,
        secrets=secrets,
        keys=connected.signing,
        engines=connected.engines,
        rows=connected.engines.rows,
        logs=logs,
        uploads=Uploads(stored.files.incoming, settings.packages.size),
        preview=connected.deployer.preview,
        provider=connected.deployer.provider,
        inspect=stored.checking.inspector.check,
        plan=planner.edit,
        plan_bundle=lambda file, caller, namespace: planner.bundle(file, caller, namespace, budget_of(settings)),
        branch=SourceBranches(settings, ports, connected.cache, secrets, connected.tenant_secrets.refresh),
        read_text=partial(read_text, admit=planner.admit),
        trusted=trusted(settings),
        mark_key=connected.mark_key,
        now=now,
        quotas=stored.quotas,
        interrupted=connected.feed.interrupted,
        collectors=(ClientCollector(connected.clusters.own.requests),),
        measures=PlatformMeasures(fleet_of(connected.cache)),
        engine_wait=settings.engine.wait,
        token_ttl=settings.tokens.ttl,
    )
    return facade, writing.clones


def _writing(settings: Settings, connected: Connected, ports: Ports, secrets: StoreSecrets, scratch: Path) -> SourceWriting:
    """Return the writes to sources. scratch: for their clones."""
    return SourceWriting.of(
        settings=settings,
        ports=ports,
        cache=connected.cache,
        secrets=secrets,
        refresh=connected.tenant_secrets.refresh,
        scratch=scratch,
    )


def _planner(connected: Connected, ports: Ports, checking: Checking, settings: Settings) -> Planner:
    cache, read = connected.cache, connected.tenant_secrets.read
    admission = Admission()
    overlays = Overlays(
        ports=ports,
        admission=admission,
        has_engine=DeclaredObjects(cache).has_engine,
        engines=planned_engines(connected.engines, connected.fingerprint_key, settings.outbound),
        checking=checking,
    )
    return Planner(cache=cache, scene=overlays.scene, admit=admission.admit, now=now, read_unfollowed=read)


async def _sweep(blobs: ObjectBlobs) -> None:
    """Removes packages that nobody holds, again and again."""
    while True:
        try:
            await blobs.sweep()
        except Halt as halt:
            log.warning("packages not swept", error=str(halt))
        await asyncio.sleep(SWEEP_S)


def _stored(cache: Cache, settings: Settings, folder: Path) -> StoredPackages[FolderBlobs | ObjectBlobs]:
    """Blocks."""
    return StoredPackages.of(lambda checking: _blobs(settings.cluster.blobs, folder, checking), cache, settings)


def _blobs(url: str, folder: Path, checking: Checking) -> FolderBlobs | ObjectBlobs:
    """Return the store of packages and logs: a folder for `file:///PATH`, otherwise an object store. Blocks."""
    scheme, _, path = url.partition("://")
    if scheme == "file":
        return FolderBlobs(Path(path), checking.inspect, checking.read)
    return ObjectBlobs(from_url(url), folder, checking.inspect)
