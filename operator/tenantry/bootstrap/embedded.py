"""The platform of one machine: an embedded store, engines in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.engine_http import HttpEngines, TransportFor
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.local.opening import EngineOpener
from tenantry.adapters.logs import BlobLogs
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.store.embedded import EmbeddedStore
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.adapters.store.state_folder import StateUnreadable, derive, password_file, read_key
from tenantry.adapters.tenancy import EmbeddedTenancy
from tenantry.api.app import create_app
from tenantry.api.facade import Facade
from tenantry.api.webhooks import Webhook
from tenantry.bootstrap.fetching import Fetching
from tenantry.bootstrap.foreign import foreign_rules, planned_engines
from tenantry.bootstrap.packages import Checking
from tenantry.bootstrap.planning import Planner, budget_of
from tenantry.bootstrap.seat import FINALIZED, FOLLOWED, Ports, kept, now
from tenantry.bootstrap.sign_in import trusted, verifier
from tenantry.bootstrap.sources import Readable, Reading, open_source
from tenantry.hosts.standalone import SourceFeed, Standalone
from tenantry.hosts.writing import turn_of
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import KINDS, TYPES
from tenantry.kinds.source.spec import Source
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, Ref
from tenantry.model.syncing import owner_of
from tenantry.rest.uploads import Uploads
from tenantry.runtime.applied import StoredRevision
from tenantry.runtime.cache import Cache
from tenantry.runtime.cycle import Cycle
from tenantry.runtime.declared import declared_of
from tenantry.runtime.first_user import ensure_first_user
from tenantry.runtime.holding import holding
from tenantry.runtime.plan import Edit
from tenantry.runtime.planned import Planned
from tenantry.runtime.pruning import Budget
from tenantry.runtime.retention import Retention
from tenantry.runtime.runtime import Runtime
from tenantry.runtime.sync import Syncer
from tenantry.runtime.write_back import WriteBack
from tenantry.runtime.writers import SourceWriters
from tenantry.runtime.writing import WritingStore
from tenantry.settings import Settings

L = TypeVar("L")
ISSUER = "tenantry"
RETENTION_S = 60.0
"""Seconds between two looks for Operations that need not be kept."""
BACKUPS_S = 3600.0
"""The same for archives of removed environments."""


@dataclass
class Platform:
    """A platform on this machine, composed and not yet started. `http` serves the facade and all engines."""

    state: Path
    base_url: str
    store: EmbeddedStore
    admission: Admission
    cache: Cache
    writing: WritingStore
    ports: Ports
    packages: FolderBlobs
    keys: KeyRing
    runtime: Runtime
    host: Standalone
    hosting: LocalHosting
    folders: EngineFolders
    backups: Backups
    engines: HttpEngines
    fetching: Fetching
    fingerprint_key: bytes
    mark_key: bytes
    settings: Settings
    source: SourceFeed | None = None
    write_back: WriteBack | None = None
    webhook: Webhook | None = None
    _started: bool = False

    @property
    def facade(self) -> Facade:
        """What the REST facade needs."""
        return Facade(
            store=self.writing,
            writers=SourceWriters(self.cache, self._write_back_of, lambda: self.write_back),
            cache=self.cache,
            packages=self.packages,
            secrets=StoreSecrets(self.writing, self.cache.document, self.fingerprint_key),
            keys=self.keys,
            engines=self.engines,
            logs=self.ports.logs,
            uploads=Uploads(self.packages.incoming, self.settings.packages.size),
            preview=self.ports.deployer.preview,
            provider=self.ports.deployer.provider,
            inspect=Checking.of(self.settings).inspect,
            plan=self.plan,
            plan_bundle=self.plan_bundle,
            trusted=trusted(self.settings),
            webhook=self.webhook,
            mark_key=self.mark_key,
            now=now,
            ready=lambda: self._started,
            engine_wait=self.settings.engine.wait,
            token_ttl=self.settings.tokens.ttl,
        )

    @classmethod
    async def open(
        cls, state: Path, base_url: str, store: EmbeddedStore | None = None, settings: Settings | None = None
    ) -> Platform:
        """Opens the state folder. Raises StateInUse, StateUnwritable, StateUnreadable. store: another one, for tests."""
        settings, admission, cache = settings or Settings(), Admission(), Cache(TYPES)
        store = store or await SqliteStore.open(state, admission)
        writing = WritingStore(store, cache)
        packages = await asyncio.to_thread(FolderBlobs, state / "packages", Checking.of(settings).inspect)
        keys = await _loaded(state, lambda: KeyRing(state / "keys", ISSUER))
        folders = await _loaded(state, lambda: EngineFolders(state))
        fingerprint_key, mark_key = await asyncio.to_thread(_derived, state)
        secrets = StoreSecrets(writing, cache.document, fingerprint_key)
        hosting = _hosting(base_url, folders, secrets, keys, settings)
        backups = await asyncio.to_thread(Backups, state, folders, partial(declared_of, cache), settings.backups.keep)
        engines = _engines(keys, secrets, settings, state / "incoming", _in_process(hosting, base_url), cache)
        deployer = LocalDeployer(folders, backups, base_url, hosting.closed)
        fetching = _fetching(settings, packages, state, writing, cache, secrets, lambda of: runtime.look(of), engines)
        ports = _ports(writing, store, fingerprint_key, deployer, engines, packages, fetching)
        runtime = _runtime(cache, ports, settings)
        return cls(
            state,
            base_url,
            store,
            admission,
            cache,
            writing,
            ports,
            packages,
            keys,
            runtime,
            Standalone(store, cache, runtime, FOLLOWED, settings.resync.total_seconds()),
            hosting,
            folders,
            backups,
            engines,
            fetching,
            fingerprint_key,
            mark_key,
            settings,
        )

    async def plan(self, edit: Edit, tenant: str = "") -> Planned:
        """What an edit of declared objects would come to, as far as that Tenant's members may read. Nothing is done."""
        return await self._planner.edit(edit, tenant)

    async def plan_source(self, source: Path | GitUrl, name: str) -> Planned:
        """What applying a directory or a repository would come to. Nothing is done."""
        return await self._planner.source(source, name, self._budget, Reading.of(self.settings))

    async def plan_bundle(self, file: Path, caller: Caller, namespace: str) -> Planned:
        """What applying a source would come to that a client has read. Nothing is done."""
        return await self._planner.bundle(file, caller, namespace, self._budget)

    def open_source(self, source: Path | GitUrl, name: str) -> Readable:
        """A directory or a repository, to be read: its packages are stored here. name: which objects are its own."""
        files = PackageFiles(self.packages, Checking.of(self.settings).build, self.packages.incoming)
        applied = StoredRevision(self.writing, name)
        return open_source(source, self.state / "git", self._admit, files, Reading.of(self.settings), applied)

    def attach(self, source: Path | GitUrl, name: str) -> SourceFeed:
        """Takes a directory or a repository as the platform's source. name: which objects are its own."""
        return self.follow(self.open_source(source, name), name)

    def follow(self, opened: Readable, name: str) -> SourceFeed:
        """Takes an opened source as the platform's own."""
        asked = holding(self.ports.engines)
        syncer = Syncer(self.writing, self.store, name, FINALIZED, self._budget, lambda: self.store.version, holding=asked)
        self.source = feed = SourceFeed(opened.location, opened.read, opened.changes, syncer, self.cache, opened.applied)
        if opened.declarations is not None:
            self.write_back = WriteBack(
                name, partial(turn_of, feed, opened.declarations, self._write_wait_s), self.admission.admit
            )
        if opened.webhook is not None:
            self.webhook = opened.webhook(feed.ask)
        return feed

    @property
    def http(self) -> ASGIApp:
        """The application that serves the facade, and the engines under /e."""
        facade = create_app(self.facade)

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            engine = scope["type"] == "http" and scope["path"].startswith("/e/")
            await (self.hosting if engine else facade)(scope, receive, send)

        return serve

    async def start(self) -> None:
        """Runs: the store is followed, passes run, the first user is there, the source is applied and followed."""
        await self.host.start()
        retention = Retention(self.writing, self.cache, self.ports.logs, kept(self.settings), now, KINDS)
        self.host.run(partial(retention.run, RETENTION_S), "retention")
        self.host.run(partial(self.backups.run, BACKUPS_S), "backups")
        self._started = True
        await ensure_first_user(self.writing, await asyncio.to_thread(password_file, self.state))
        if self.source is not None:
            await self.source.sync()
            self.host.run(self.source.run, "source")

    async def converged(self) -> None:
        """Returns when nothing is left to do but what waits for somebody."""
        while True:
            await self.runtime.idle()
            if self.source is not None:
                await self.source.settled()
            if not self.runtime.busy:
                return

    async def close(self) -> None:
        """Stops, and lets the state folder go."""
        await self.host.stop()
        await self.fetching.aclose()
        await self.engines.aclose()
        await self.hosting.aclose()
        await asyncio.to_thread(self.folders.close)
        await self.store.close()

    def _write_back_of(self, source: Source) -> WriteBack:
        turn = partial(self.fetching.sources.turn, source.ref, self._write_wait_s)
        return WriteBack(owner_of(source.ref), turn, self.admission.admit)

    @property
    def _write_wait_s(self) -> float:
        return self.settings.git.write_timeout.total_seconds()

    @property
    def _planner(self) -> Planner:
        engines = planned_engines(self.engines, self.fingerprint_key, self.settings.outbound)
        checking = Checking.of(self.settings)
        return Planner(
            self.cache, self.ports, self.admission, lambda id_: (self.state / "engines" / id_).exists(), engines, checking
        )

    @property
    def _budget(self) -> Budget:
        return budget_of(self.settings)

    def _admit(self, document: Document) -> Document:
        return self.admission.admit(document, None)


async def _loaded(state: Path, load: Callable[[], L]) -> L:
    """What a file of the state folder holds. Raises StateUnreadable, naming the file, for one that is damaged."""
    try:
        return await asyncio.to_thread(load)
    except ValueError as error:
        ways = "put the file back from a copy; a key may also be moved away, which ends the sessions that it signed"
        raise StateUnreadable(state, f"{error}; {ways}") from error


def _derived(state: Path) -> tuple[bytes, bytes]:
    """The key of fingerprints, and that of requests' marks. Blocks."""
    master = read_key(state, make=True)
    return derive(master, "fingerprint"), derive(master, "request")


def _hosting(base_url: str, folders: EngineFolders, secrets: StoreSecrets, keys: KeyRing, settings: Settings) -> LocalHosting:
    foreign = verifier(settings.outbound)
    opener = EngineOpener(
        secrets, keys, lambda id_: f"{base_url}/engines/{id_}/api/v1", Checking.of(settings).limits, foreign, settings.public_url
    )
    return LocalHosting(folders, opener, settings.packages.size, settings.engine.open)


def _engines(
    keys: KeyRing, secrets: StoreSecrets, settings: Settings, scratch: Path, transport_for: TransportFor, cache: Cache
) -> HttpEngines:
    return HttpEngines(
        keys,
        secrets,
        Checking.of(settings).inspect,
        scratch,
        transport_for,
        rules_for=foreign_rules(settings.outbound, cache),
        largest=settings.packages.size,
    )


def _ports(
    writing: WritingStore,
    store: EmbeddedStore,
    fingerprint_key: bytes,
    deployer: LocalDeployer,
    engines: HttpEngines,
    packages: FolderBlobs,
    fetching: Fetching,
) -> Ports:
    return Ports(
        store=writing,
        tenancy=lambda through: EmbeddedTenancy(through, store.inside),
        fingerprint_key=fingerprint_key,
        deployer=deployer,
        engines=engines,
        packages=packages,
        logs=BlobLogs(packages),
        fetcher=fetching.packages,
        sources=fetching.sources,
    )


def _fetching(
    settings: Settings,
    packages: FolderBlobs,
    state: Path,
    writing: WritingStore,
    cache: Cache,
    secrets: StoreSecrets,
    ended: Callable[[Ref], None],
    engines: HttpEngines,
) -> Fetching:
    return Fetching.of(settings, packages, packages.incoming, state, writing, cache, secrets, ended, engines)


def _runtime(cache: Cache, ports: Ports, settings: Settings) -> Runtime:
    cycle = Cycle(KINDS, cache, ports, now, settings.operations.deadline)
    return Runtime(KINDS, cache, cycle, time=time.monotonic, now=now, workers=settings.workers)


def _in_process(hosting: LocalHosting, base_url: str) -> Callable[[str], httpx.AsyncBaseTransport | None]:
    """Engines of this process are called without a socket, by the same HTTP."""
    transport = httpx.ASGITransport(app=_as_app(hosting))
    return lambda url: transport if url.startswith(f"{base_url}/e/") else None


def _as_app(hosting: LocalHosting) -> ASGIApp:
    return hosting
