"""The api of a cluster: the facade over its API server, in a process without passes; the operator needs nothing of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog
from obstore.store import from_url
from starlette.types import ASGIApp

from tenantry.adapters.blobs import Check, FolderBlobs
from tenantry.adapters.blobs_object import ObjectBlobs
from tenantry.adapters.logs import BlobLogs
from tenantry.adapters.overlay.packages import NoFetches, PlannedSources
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.api.app import create_app
from tenantry.api.facade import Facade
from tenantry.bootstrap.cluster import Declared, connect
from tenantry.bootstrap.foreign import planned_engines
from tenantry.bootstrap.packages import Checking
from tenantry.bootstrap.planning import Planner, budget_of
from tenantry.bootstrap.seat import FOLLOWED, now
from tenantry.bootstrap.sign_in import trusted
from tenantry.bootstrap.source_writing import SourceWriting
from tenantry.hosts.standalone import following
from tenantry.hosts.supervision import supervised
from tenantry.kinds.admission import Admission
from tenantry.model.verdicts import Halt
from tenantry.rest.uploads import Uploads
from tenantry.settings import Settings

SWEEP_S = 3600.0

log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_api(settings: Settings) -> AsyncIterator[ASGIApp]:
    """The facade over the cluster, its cache complete and followed until the end of the block."""
    checking = Checking.of(settings)
    with tempfile.TemporaryDirectory(prefix="tenantry-api-") as folder:
        blobs = await asyncio.to_thread(_blobs, settings.cluster.blobs, Path(folder), checking.inspect)
        async with connect(settings, Path(folder), acts=False) as connected:
            logs = BlobLogs(blobs)
            cache = connected.cache
            engines = planned_engines(connected.engines, connected.fingerprint_key, settings.outbound)
            ports = connected.ports(blobs, logs, NoFetches(), PlannedSources())
            read = connected.tenant_secrets.refresh
            planner = Planner(cache, ports, Admission(), Declared(cache).has_engine, engines, checking, read)
            secrets = StoreSecrets(connected.writing, cache.document, connected.fingerprint_key)
            writing = SourceWriting.of(settings, ports, cache, secrets, Path(folder))
            facade = Facade(
                store=connected.writing,
                writers=writing.writers,
                cache=cache,
                packages=blobs,
                secrets=secrets,
                keys=connected.signing,
                engines=connected.engines,
                logs=logs,
                uploads=Uploads(blobs.incoming, settings.packages.size),
                preview=connected.deployer.preview,
                provider=connected.deployer.provider,
                inspect=checking.inspect,
                plan=planner.edit,
                plan_bundle=lambda file, caller, namespace: planner.bundle(file, caller, namespace, budget_of(settings)),
                trusted=trusted(settings),
                mark_key=connected.mark_key,
                now=now,
                engine_wait=settings.engine.wait,
                token_ttl=settings.tokens.ttl,
            )
            async with supervised() as supervisor, following(connected.feed, cache, FOLLOWED, supervisor):
                supervisor.run(writing.clones.run, "source clones")
                if isinstance(blobs, ObjectBlobs):  # a folder is swept when the last holder lets go
                    supervisor.run(partial(_sweep, blobs), "packages")
                yield create_app(facade)


async def _sweep(blobs: ObjectBlobs) -> None:
    """Removes packages that nobody holds, again and again."""
    while True:
        try:
            await blobs.sweep()
        except Halt as halt:
            log.warning("packages not swept", error=str(halt))
        await asyncio.sleep(SWEEP_S)


def _blobs(url: str, folder: Path, check: Check) -> FolderBlobs | ObjectBlobs:
    """Where packages and logs are kept: a folder by `file:///PATH`, else an object store by its URL. Blocks."""
    scheme, _, path = url.partition("://")
    return FolderBlobs(Path(path), check) if scheme == "file" else ObjectBlobs(from_url(url), folder, check)
