"""Parts of the platform of one machine: what its state folder holds, engines in this process, and its console."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.engine.http import HttpEngines, TransportFor
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.limited_packages import LimitedPackages
from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.data_loss.owning import NotTheirStateError, OwningState
from tenantry.adapters.local.data_loss.survey import DataSurvey
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.local.opening import EngineOpener
from tenantry.adapters.logs import BlobLogs
from tenantry.adapters.store.embedded import EmbeddedStore
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.adapters.store.state_folder import StateUnreadable, derive, read_key
from tenantry.adapters.tenancy import EmbeddedTenancy
from tenantry.bootstrap.fetching import Fetching
from tenantry.bootstrap.foreign import foreign_rules
from tenantry.bootstrap.outward import limits_of, rules_of, verifier
from tenantry.bootstrap.packages import Checking, StoredPackages, packages_in
from tenantry.bootstrap.pass_ports import Ports
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Ref
from tenantry.rest.apps.later import LaterApp
from tenantry.runtime.cache import Cache
from tenantry.runtime.environment_declaration import declared_of
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.settings import Settings

if TYPE_CHECKING:
    import httpx
    from starlette.types import ASGIApp

    from tenantry.api.auth.one_time_codes import OneTimeCodes
    from tenantry.api.facade_context import FacadeContext
    from tenantry.engine.quota import EngineQuota
    from tenantry.rest.apps.plain import PlainApp

ISSUER = "tenantry"
PAGES = ("tenantry.console.app",)
PATHS_OF_PAGES = ("/console", "/console/{below:path}")
L = TypeVar("L")


@dataclass(frozen=True)
class OpenedState:
    """The opened contents of a state folder."""

    folder: Path
    admission: Admission
    cache: Cache
    store: EmbeddedStore
    writing: WritingStore
    stored: StoredPackages[FolderBlobs]
    keys: KeyRing
    folders: EngineFolders
    fingerprint_key: bytes
    mark_key: bytes
    secrets: StoreSecrets
    databases: Databases

    @classmethod
    async def of(cls, state: Path, store: EmbeddedStore | None, settings: Settings) -> OpenedState:
        """Opens the folder. Raises StateInUse, StateUnwritable, StateUnreadable. store: another one, for tests."""
        admission = Admission()
        if store is not None:
            return await cls._around(state, store, admission, settings, None)
        made = await SqliteStore.open(state, admission)
        try:
            return await cls._around(state, made, admission, settings, OwningState(made.identity, lambda: int(made.version)))
        except BaseException:
            await made.close()
            raise

    @classmethod
    async def _around(
        cls, state: Path, store: EmbeddedStore, admission: Admission, settings: Settings, owner: OwningState | None
    ) -> OpenedState:
        cache = Cache(TYPES)
        writing = WritingStore(store, cache)
        stored = await asyncio.to_thread(packages_in, state, cache, settings)
        keys = await _loaded(state, lambda: KeyRing(state / "keys", ISSUER))
        folders = await _loaded(state, lambda: EngineFolders(state, owner))
        fingerprint_key, mark_key = await asyncio.to_thread(_derived, state)
        secrets = StoreSecrets(writing, cache.document, fingerprint_key)
        return cls(
            folder=state,
            admission=admission,
            cache=cache,
            store=store,
            writing=writing,
            stored=stored,
            keys=keys,
            folders=folders,
            fingerprint_key=fingerprint_key,
            mark_key=mark_key,
            secrets=secrets,
            databases=Databases(secrets, rules_of(settings.outbound)),
        )

    @property
    def packages(self) -> LimitedPackages:
        """Package bytes, within the tenants' quotas."""
        return self.stored.limited


async def _loaded(state: Path, load: Callable[[], L]) -> L:
    """Return the content of a file of the state folder. Raises StateUnreadable, naming the file, for a damaged one."""
    try:
        return await asyncio.to_thread(load)
    except NotTheirStateError as error:
        raise StateUnreadable(state, str(error)) from error
    except ValueError as error:
        ways = "put the file back from a copy; a key may also be moved away, which ends the sessions that it signed"
        raise StateUnreadable(state, f"{error}; {ways}") from error


def _derived(state: Path) -> tuple[bytes, bytes]:
    """Return the key of fingerprints, and that of requests' marks. Blocks."""
    master = read_key(state, make=True)
    return derive(master, "fingerprint"), derive(master, "request")


def hosting_of(settings: Settings, opened: OpenedState, base_url: str) -> LocalHosting:
    """Return the engines of this process."""

    def quota_of(id_: str) -> EngineQuota:
        from tenantry.engine.quota import EngineQuota, Limits  # with the engine, which is imported when one is opened

        made = lru_cache(maxsize=1)(Limits)
        return EngineQuota(lambda: made(*opened.folders.limits(id_)), opened.stored.quotas.count_refusal)

    opener = EngineOpener(
        secrets=opened.secrets,
        keys=opened.keys,
        facade_url=lambda id_: f"{base_url}/engines/{id_}/api/v1",
        databases=opened.databases,
        limits=limits_of(settings.packages),
        foreign=verifier(settings.outbound),
        public_url=settings.public_url,
        quota_of=quota_of,
    )
    return LocalHosting(opened.folders, opener, settings.packages.size, settings.engine.open)


def backups_of(settings: Settings, opened: OpenedState) -> Backups:
    """Return the archives of this machine. Blocks."""
    return Backups(
        state=opened.folder,
        folders=opened.folders,
        declared=partial(declared_of, opened.cache),
        keep=settings.backups.keep,
        databases=opened.databases,
        key_file=settings.backups.key_file,
        keys=settings.backups.keys,
    )


def engines_of(settings: Settings, opened: OpenedState, transport_for: TransportFor) -> HttpEngines:
    """Return the way to all engines, by HTTP."""
    return HttpEngines(
        opened.keys,
        opened.secrets,
        Checking.of(settings).inspect,
        opened.folder / "incoming",
        transport_for,
        rules_for=foreign_rules(settings.outbound, opened.cache),
        largest=settings.packages.size,
    )


def fetching_of(settings: Settings, opened: OpenedState, engines: HttpEngines, ended: Callable[[Ref], None]) -> Fetching:
    """Return what fetches packages and sources. ended: called with each object that has news."""
    return Fetching.of(
        settings=settings,
        packages=opened.packages,
        folder=opened.stored.files.incoming,
        home=opened.folder,
        writing=opened.writing,
        cache=opened.cache,
        secrets=opened.secrets,
        ended=ended,
        engines=engines,
    )


def deployer_of(opened: OpenedState, hosting: LocalHosting, backups: Backups, base_url: str) -> LocalDeployer:
    """Return the deployer of this machine."""
    return LocalDeployer(
        folders=opened.folders,
        backups=backups,
        base_url=base_url,
        closed=hosting.closed,
        databases=opened.databases,
        try_open=hosting.try_open,
        survey=DataSurvey(opened.folders, hosting),
        check_archive=opened.stored.quotas.check_archive,
    )


def ports_of(opened: OpenedState, *, deployer: LocalDeployer, engines: HttpEngines, fetching: Fetching) -> Ports:
    """Return the ports of one pass."""
    return Ports(
        store=opened.writing,
        tenancy=lambda through: EmbeddedTenancy(through, opened.store.inside),
        fingerprint_key=opened.fingerprint_key,
        deployer=deployer,
        engines=engines,
        packages=opened.packages,
        logs=BlobLogs(opened.stored.files),
        fetcher=fetching.packages,
        sources=fetching.sources,
        quotas=opened.stored.quotas.default,
    )


def in_process(hosting: LocalHosting, base_url: str) -> Callable[[str], httpx.AsyncBaseTransport | None]:
    """Return the way to engines of this process: without a socket, by the same HTTP."""

    @cache
    def transport() -> httpx.AsyncBaseTransport:
        from httpx import ASGITransport

        return ASGITransport(app=hosting)

    return lambda url: transport() if url.startswith(f"{base_url}/e/") else None


def add_later_console(app: PlainApp, context: FacadeContext, codes: OneTimeCodes) -> LaterApp:
    """Add the pages of the console to an application. Return their own, which is made when it is first needed.

    They are imported and made once REST answers, which does not wait for them. The facade has read what is stored before.
    """

    def make() -> ASGIApp:
        from tenantry.console.app import add_console
        from tenantry.rest.apps.plain import PlainApp

        pages = PlainApp("Console", (), lambda inner: inner)
        add_console(pages, context, codes)
        return pages

    later = LaterApp(PAGES, make, context.facade.ready, context.facade.requests.count)
    for path in PATHS_OF_PAGES:
        app.delegate(path, later)
    return later
