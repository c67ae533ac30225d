"""One pool in this process: the engines of many environments, as a platform on a cluster places them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from tenantry.adapters.admin_password import Declared
from tenantry.adapters.database_url import mounted
from tenantry.adapters.keys import MountedKeys
from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.data_loss.survey import DataSurvey
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.local.opening import EngineOpener
from tenantry.adapters.moving.room import CopyRoom
from tenantry.adapters.pools.declarations import NoSecrets, SentDeclarations
from tenantry.adapters.pools.moves import PoolMoves
from tenantry.adapters.pools.server import Pool, PoolServer
from tenantry.adapters.pools.shared.folders import CatalogFollower
from tenantry.adapters.pools.shared.moves import SharedMoves
from tenantry.adapters.pools.shared.opening import SharedParts, open_shared
from tenantry.adapters.store.state_folder import FolderLock
from tenantry.bootstrap.outward import limits_of, verifier
from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.output.failing import BAD_INPUT, Failure, say
from tenantry.cli.output.logs import announce, configure, include_libraries
from tenantry.cli.processes.engine_metrics import Count, engine_metrics_served, held_below
from tenantry.cli.processes.freed_memory import freed_memory_returned
from tenantry.cli.processes.serving import address_of, serving
from tenantry.cli.processes.signals import signalled
from tenantry.cli.processes.tracing import traced
from tenantry.engine.quota import EngineQuota, Limits
from tenantry.model.facts import Password
from tenantry.model.measures import EngineHoldings
from tenantry.model.verdicts import Halt, Transient
from tenantry.rest.fairness.rates import Rates
from tenantry.settings import Settings

T = TypeVar("T")

WAITS_S, AGAIN_S = 90.0, 2.0
"""Seconds that a pod waits for the server of its pool, and between two tries. Its probe takes 120 seconds for the start."""
SWEEP_S = 3600.0
"""Seconds between two looks for archives that need not be kept."""


@dataclass(frozen=True)
class OpenedPool:
    """The parts of a pool that is served."""

    folders: EngineFolders
    hosting: LocalHosting
    backups: Backups
    survey: DataSurvey
    server: PoolServer
    shared: SharedParts | None = None
    follower: CatalogFollower | None = None

    async def close(self) -> None:
        """Close all engines."""
        await self.hosting.aclose()
        await asyncio.to_thread(self.folders.close)
        if self.shared is not None:
            await self.shared.close()


async def serve_pool(data: Path, listen: str, settings: Settings, log_format: LogFormat) -> None:
    """Serve the engines of that folder until a signal comes. Raises Failure, Halt, OSError."""
    if not settings.managed.pool:
        raise Failure("TENANTRY_MANAGED__POOL is missing: a pool is deployed by the operator of a cluster", BAD_INPUT)
    host, port = address_of(listen)
    about = {"pool": settings.managed.pool}
    configure(say, log_format, about=about)
    include_libraries(say, log_format, about)
    lock = await asyncio.to_thread(FolderLock, data)
    bound = listening(host, port)
    pool = await _opened(data, settings)
    works = [asyncio.create_task(work(), name=name) for name, work in _works(pool).items()]
    try:
        with freed_memory_returned(), traced("tenantry-pool"):
            async with (
                engine_metrics_served(settings.metrics, pool.hosting.measures, _counting(pool.folders)),
                serving(pool.server, bound, settings.http),
            ):
                announce(url_of(bound), log_format, about)
                await _until_first(asyncio.create_task(signalled()), works)
    finally:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        await pool.close()
        lock.release()


async def _opened(data: Path, settings: Settings) -> OpenedPool:
    """Open the pool; wait for its server for a while, if it has one. Raises ValueError, OSError, Halt."""
    until = time.monotonic() + WAITS_S
    pool = await _patiently(lambda: asyncio.to_thread(open_pool, data, settings), until)
    if pool.follower is not None:
        await _patiently(pool.follower.refresh, until)
    return pool


async def _patiently(work: Callable[[], Awaitable[T]], until: float) -> T:
    """Return the result of that work, which is tried again while its fault is a passing one. until: as time.monotonic."""
    while True:
        try:
            return await work()
        except Halt as halt:
            if not isinstance(halt.verdict, Transient) or time.monotonic() > until:
                raise
        await asyncio.sleep(AGAIN_S)


def open_pool(data: Path, settings: Settings) -> OpenedPool:
    """Open the folder of a pool. Blocks. Raises ValueError, OSError, and Halt for one on a server."""
    managed, keep, with_keys = settings.managed, settings.backups.keep, settings.backups.keys
    keys = MountedKeys(managed.jwks, managed.issuer)
    declared, url = SentDeclarations(), mounted(managed.database_url)
    shared = open_shared(data, url, managed.pool, declared, keep, keys=with_keys) if url is not None else None
    folders = shared.folders if shared is not None else EngineFolders(data)
    databases = shared.databases if shared is not None else Databases(NoSecrets())
    backups = shared.backups if shared is not None else Backups(data, folders, declared, keep, databases, keys=with_keys)
    opener = _opener(settings, keys, folders, databases, shared)
    hosting = LocalHosting(folders, opener, settings.packages.size, settings.engine.open)
    survey = DataSurvey(folders, hosting)
    deployer = LocalDeployer(folders, backups, "", hosting.closed, databases, hosting.try_open, survey)
    follower = CatalogFollower(shared.folders, shared.catalog, hosting.closed) if shared is not None else None
    room = CopyRoom(data, managed.copies)
    moves = PoolMoves(folders, backups, deployer, hosting, room)
    if shared is not None and follower is not None:
        moves = SharedMoves(shared, deployer, hosting, follower, room)
    pool = Pool(managed.pool, managed.capacity, folders, deployer, declared, backups, survey, moves, follower)
    return OpenedPool(folders, hosting, backups, survey, PoolServer(pool, folders, hosting, keys), shared, follower)


def _opener(
    settings: Settings, keys: MountedKeys, folders: EngineFolders, databases: Databases, shared: SharedParts | None
) -> EngineOpener:
    def quota_of(id_: str) -> EngineQuota:
        made = lru_cache(maxsize=1)(Limits)
        rates = shared.rates if shared is not None else Rates()
        return EngineQuota(lambda: made(*folders.limits(id_)), rates=rates, key=id_)

    return EngineOpener(
        secrets=NoSecrets(),
        keys=keys,
        facade_url=lambda id_: f"{settings.managed.facade_url}/engines/{id_}/api/v1",
        databases=databases,
        limits=limits_of(settings.packages),
        foreign=verifier(settings.outbound),
        quota_of=quota_of,
        admin_of=lambda record: _sent_password(folders, record),
        origin_of=shared.packages_of if shared is not None else None,
        throttle=shared.throttle if shared is not None else None,
    )


def _works(pool: OpenedPool) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
    async def survey() -> None:
        async for _ in pool.survey.changes():
            pass  # the operator asks for what is gone

    async def sweep() -> None:
        await pool.backups.run(SWEEP_S)

    works: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"survey": survey, "backups": sweep}
    if pool.follower is not None and pool.shared is not None:
        works |= {"catalog": pool.follower.run, "sign-ins": pool.shared.counts.run, "requests": pool.shared.rates.run}
    return works


def _sent_password(folders: EngineFolders, opened: EngineRecord) -> Declared:
    """The admin password that the operator sent last. An engine stays open when it changes."""

    async def declared() -> Password | None:
        sent = (folders.held(opened.ref.id) or opened).sent
        return Password(hash=sent.password, fingerprint=sent.fingerprint) if sent.password else None

    return declared


def _counting(folders: EngineFolders) -> Count:
    async def count() -> EngineHoldings:
        return await asyncio.to_thread(held_below, folders.engines)

    return count


async def _until_first(signal: asyncio.Task[None], works: list[asyncio.Task[None]]) -> None:
    """Return when the signal comes. Raises what ends a work of the pool."""
    ended, _ = await asyncio.wait((signal, *works), return_when=asyncio.FIRST_COMPLETED)
    signal.cancel()
    for task in ended:
        task.result()
