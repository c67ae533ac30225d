"""The platform of one machine: an embedded store, engines in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.sources.documents import read_text
from tenantry.adapters.sources.git.applied import AppliedCommit, AppliedCommitInMemory
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.store.embedded import EmbeddedStore
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.adapters.store.state_folder import password_file
from tenantry.api.auth.one_time_codes import OneTimeCodes
from tenantry.bootstrap.embedded_parts import (
    OpenedState,
    add_later_console,
    backups_of,
    deployer_of,
    engines_of,
    fetching_of,
    hosting_of,
    in_process,
    ports_of,
)
from tenantry.bootstrap.fetching import Fetching
from tenantry.bootstrap.pass_ports import Ports
from tenantry.bootstrap.reconciling import collectors_of, fleet_of, follow_engines, retention_of, runtime_of
from tenantry.bootstrap.sources import Readable, SourceSettings, budget_of, open_source
from tenantry.console.http.origins import Sandboxed
from tenantry.hosts.left_engines import LeftEngines
from tenantry.hosts.standalone import Standalone
from tenantry.kinds.environment.orphaned import HeldEngine
from tenantry.kinds.registry import FINALIZED, FOLLOWED
from tenantry.kinds.source.spec import Source
from tenantry.kinds.user.spec import User
from tenantry.model.facts import Caller
from tenantry.model.measures import FacadeMeasures
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tenantry.model.syncing import source_label
from tenantry.model.tree import Tree
from tenantry.model.verdicts import NotFound
from tenantry.rest.answers import LateAnswer, ReadyAnswer
from tenantry.rest.apps.later import LaterApp
from tenantry.rest.uploads import Uploads
from tenantry.runtime.clock import now
from tenantry.runtime.first_user import USERNAME, ensure_first_user
from tenantry.runtime.following.current_order import nothing_to_read
from tenantry.runtime.following.feed import SourceFeed
from tenantry.runtime.following.turns import turn_of
from tenantry.runtime.health import PlatformMeasures
from tenantry.runtime.reconcile.loop import Runtime
from tenantry.runtime.sources.applied import StoredRevision
from tenantry.runtime.sources.holding import holding
from tenantry.runtime.sources.pruning import Budget
from tenantry.runtime.sources.sync import Syncer
from tenantry.runtime.sources.write_back import WriteBack
from tenantry.runtime.sources.writers import SourceWriters
from tenantry.settings import Settings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tenantry.api.facade import Facade
    from tenantry.api.facade_context import FacadeContext
    from tenantry.api.webhooks import Webhook
    from tenantry.rest.apps.plain import PlainApp
    from tenantry.runtime.planning.plan import Edit
    from tenantry.runtime.planning.planned import Planned
    from tenantry.runtime.planning.planner import PlannedPackages, Planner

L = TypeVar("L")
RETENTION_S = 60.0
"""Seconds between two looks for Operations that need not be kept."""
STATE = "state"
"""The work that looks whether the state is there."""
STATE_S = 5.0
"""Seconds between two of its looks."""
BACKUPS_S = 3600.0
"""The same for archives of removed environments."""
FACADE = ("tenantry.api.app", "tenantry.bootstrap.source_writing")
ENGINE_CLIENT = ("tenantry.adapters.engine.calls", "tenantry.adapters.guarded")
"""Modules that are imported in a thread once it answers: those of the facade, and those that ask engines."""


@dataclass
class Platform:
    """A platform on this machine, composed and not yet started. `http` serves the facade and all engines."""

    state: OpenedState
    base_url: str
    settings: Settings
    ports: Ports
    runtime: Runtime
    host: Standalone
    hosting: LocalHosting
    backups: Backups
    engines: HttpEngines
    fetching: Fetching
    measures: PlatformMeasures
    source: SourceFeed | None = None
    write_back: WriteBack | None = None
    webhook: Webhook | None = None
    requests: FacadeMeasures = field(default_factory=FacadeMeasures)
    codes: OneTimeCodes = field(default_factory=lambda: OneTimeCodes(now))
    _console: LaterApp | None = None
    _started: bool = False
    _whole: bool = True

    async def held_engines(self) -> Sequence[HeldEngine]:
        """Return the engines of this machine, by their records and folders."""
        return await asyncio.to_thread(self.state.folders.inventory)

    @cached_property
    def _left_engines(self) -> LeftEngines:
        return LeftEngines(self.held_engines, self.state.cache)

    @property
    def facade(self) -> Facade:
        """Return the dependencies of the REST facade."""
        from tenantry.api.facade import Facade
        from tenantry.bootstrap.sign_in import trusted
        from tenantry.bootstrap.source_writing import SourceBranches

        secrets = StoreSecrets(self.state.writing, self.state.cache.document, self.state.fingerprint_key)
        return Facade(
            store=self.state.writing,
            writers=SourceWriters(self.state.cache, self._write_back_of, lambda: self.write_back),
            cache=self.state.cache,
            packages=self.state.packages,
            secrets=secrets,
            keys=self.state.keys,
            engines=self.engines,
            rows=self.engines.rows,
            logs=self.ports.logs,
            uploads=Uploads(self.state.stored.files.incoming, self.settings.packages.size),
            preview=self.ports.deployer.preview,
            provider=self.ports.deployer.provider,
            inspect=self.state.stored.checking.inspector.check,
            plan=self.plan,
            plan_bundle=self.plan_bundle,
            branch=SourceBranches(self.settings, self.ports, self.state.cache, secrets, nothing_to_read),
            read_text=partial(read_text, admit=self.state.admission.admit),
            trusted=trusted(self.settings),
            webhook=self.webhook,
            mark_key=self.state.mark_key,
            now=now,
            quotas=self.state.stored.quotas,
            gate=self.hosting.gate,
            ready=self._ready,
            requests=self.requests,
            collectors=collectors_of(self.runtime, self.measures.fleet, self._left_engines),
            measures=self.measures,
            archives=self.backups,
            engine_wait=self.settings.engine.wait,
            token_ttl=self.settings.tokens.ttl,
        )

    @classmethod
    async def open(
        cls, state: Path, base_url: str, store: EmbeddedStore | None = None, settings: Settings | None = None
    ) -> Platform:
        """Opens the state folder. Raises StateInUse, StateUnwritable, StateUnreadable. store: another one, for tests."""
        settings = settings or Settings()
        opened = await OpenedState.of(state, store, settings)
        hosting = hosting_of(settings, opened, base_url)
        backups = await asyncio.to_thread(backups_of, settings, opened)
        engines = engines_of(settings, opened, in_process(hosting, base_url))
        fetching = fetching_of(settings, opened, engines, ended=lambda of: runtime.look(of))
        ports = ports_of(opened, deployer=deployer_of(opened, hosting, backups, base_url), engines=engines, fetching=fetching)
        runtime = runtime_of(settings, opened.cache, ports)
        return cls(
            state=opened,
            base_url=base_url,
            settings=settings,
            ports=ports,
            runtime=runtime,
            host=Standalone(opened.store, opened.cache, runtime, FOLLOWED, settings.resync.total_seconds()),
            hosting=hosting,
            backups=backups,
            engines=engines,
            fetching=fetching,
            measures=PlatformMeasures(fleet_of(opened.cache), runtime.measures),
        )

    async def plan(self, edit: Edit, tenant: str = "") -> Planned:
        """Return the effects of an edit, as far as that Tenant's members may read. Changes nothing."""
        return await self._planner.edit(edit, tenant)

    async def plan_source(self, source: Path | GitUrl, name: str) -> Planned:
        """Return the effects of applying a directory or a repository. Changes nothing."""

        async def read(made: PlannedPackages, applied: str) -> Tree:
            incoming = await made.incoming()
            files = PackageFiles(made.packages, self.state.stored.checking.build, incoming)
            return await self._readable(source, incoming, files, AppliedCommitInMemory(applied)).read()

        return await self._planner.source(read, name, self._budget)

    async def plan_bundle(self, file: Path, caller: Caller, namespace: str) -> Planned:
        """Return the effects of applying a source that a client has read. Changes nothing."""
        return await self._planner.bundle(file, caller, namespace, self._budget)

    def open_source(self, source: Path | GitUrl, name: str) -> Readable:
        """A directory or a repository, to be read: its packages are stored here. name: which objects are its own."""
        stored = self.state.stored
        files = PackageFiles(self.state.packages, stored.checking.build, stored.files.incoming)
        return self._readable(source, self.state.folder, files, StoredRevision(self.state.writing, name))

    def _readable(self, source: Path | GitUrl, folder: Path, files: PackageFiles, applied: AppliedCommit) -> Readable:
        return open_source(
            source=source,
            folder=folder / "git",
            admit=self.state.admission.admit,
            packages=files,
            settings=SourceSettings.of(self.settings),
            applied=applied,
        )

    def attach(self, source: Path | GitUrl, name: str) -> SourceFeed:
        """Takes a directory or a repository as the platform's source. name: which objects are its own."""
        return self.follow(self.open_source(source, name), name)

    def follow(self, opened: Readable, name: str) -> SourceFeed:
        """Takes an opened source as the platform's own."""
        asked = holding(self.ports.engines)
        syncer = Syncer(
            store=self.state.writing,
            lists=self.state.store,
            source=name,
            finalized=FINALIZED,
            budget=self._budget,
            version=lambda: self.state.store.version,
            holding=asked,
        )
        self.source = feed = SourceFeed(
            location=opened.location,
            read=opened.read,
            changes=opened.changes,
            syncer=syncer,
            cache=self.state.cache,
            applied=opened.applied,
        )
        if opened.declarations is not None:
            turn = partial(turn_of, feed, opened.declarations, self._write_wait_s)
            self.write_back = WriteBack(name, turn, self.state.admission.admit, f"source {name}")
        if opened.webhook is not None:
            self.webhook = opened.webhook(feed.ask)
        return feed

    @property
    def http(self) -> ASGIApp:
        """The application that serves the facade, and the engines under /e."""
        facade, engines = self.later_facade, self._engines_app

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            engine = scope["type"] == "http" and scope["path"].startswith("/e/")
            await (engines if engine else facade)(scope, receive, send)

        return serve

    @cached_property
    def later_facade(self) -> LaterApp:
        """The application of the facade, which is made when it is first needed."""
        return LaterApp(FACADE, self._make_facade, self._ready, self.requests.count, self.fill_cache)

    def _make_facade(self) -> ASGIApp:
        from tenantry.api.app import create_app

        return create_app(self.facade, self._add_console)

    def _add_console(self, app: PlainApp, context: FacadeContext) -> None:
        self._console = add_later_console(app, context, self.codes)

    async def answer_all(self) -> None:
        """Return once no request has to wait for its application any more."""
        await self.later_facade.made()
        if self._console is not None:
            await self._console.made()

    def _ready(self) -> bool:
        return self._started and not self.host.supervisor.fails(STATE)

    def numbers(self) -> CollectorRegistry:
        """Return the numbers of this process, for an address that users do not reach."""
        from tenantry.api.platform.observing import numbers_of

        return numbers_of(self.facade)

    def answer_now(self, scope: Scope) -> ReadyAnswer | LateAnswer | None:
        """Return an answer of an engine before the framework, as AnswerNow."""
        return self._engines_app.answer_now(scope) if scope["path"].startswith("/e/") else None

    @cached_property
    def _engines_app(self) -> Sandboxed:
        return Sandboxed(self.hosting, self.hosting.answer_now)

    def one_time_code(self) -> str:
        """A code that signs the local SUPERUSER in to the console, once; `""` while there is no such user."""
        user = self.state.cache.entry(Ref(User.KIND, SYSTEM_NAMESPACE, USERNAME))
        return self.codes.issue(USERNAME, user.uid) if user is not None else ""

    async def fill_cache(self) -> None:
        """Read what is stored, once, and follow it. No request to the facade is answered before: it would find nobody."""
        self._whole = False
        await self.host.follow()
        self._whole = True

    async def start(self) -> None:
        """Runs: the store is followed, passes run, the first user is there, the source is applied and followed."""
        await self.fill_cache()
        # Requests are served already, and a write compiles the rules if this has not: in a thread, since it takes 0.2 s.
        await asyncio.to_thread(self.state.admission.compile)
        for module in ENGINE_CLIENT:
            await asyncio.to_thread(import_module, module)
        await self.host.start()
        retention = retention_of(self.settings, self.state.writing, self.state.cache, self.ports.logs, self.state.stored.quotas)
        self.host.run(partial(retention.run, RETENTION_S), "retention")
        self.host.run(partial(self.backups.run, BACKUPS_S), "backups")
        self.host.run(partial(follow_engines, self.ports.deployer, self.runtime), "engines")
        self.host.run(self._left_engines.run, "left engines")
        self.host.run(self._watch_state, STATE)
        self._started = True
        await ensure_first_user(self.state.writing, await asyncio.to_thread(password_file, self.state.folder))
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
        await asyncio.to_thread(self.state.folders.close, whole=self._whole)
        await self.state.store.close()
        await asyncio.to_thread(self.state.stored.checking.inspector.close)

    async def _watch_state(self) -> None:
        """Read the state now and then. Raises StateUnreadable once it was removed or overwritten, also while nobody writes."""
        while True:
            await asyncio.sleep(STATE_S)
            with suppress(NotFound):
                await self.state.store.get(Ref(User.KIND, SYSTEM_NAMESPACE, USERNAME))

    def _write_back_of(self, source: Source) -> WriteBack:
        turn = partial(self.fetching.sources.turn, source.ref, self._write_wait_s)
        return WriteBack(source_label(source.ref), turn, self.state.admission.admit, source.commits_to)

    @property
    def _write_wait_s(self) -> float:
        return self.settings.git.write_timeout.total_seconds()

    @property
    def _planner(self) -> Planner:
        from tenantry.bootstrap.foreign import planned_engines
        from tenantry.bootstrap.planning import Overlays
        from tenantry.runtime.planning.planner import Planner

        state = self.state
        overlays = Overlays(
            ports=self.ports,
            admission=state.admission,
            has_engine=lambda id_: (state.folder / "engines" / id_).exists(),
            engines=planned_engines(self.engines, state.fingerprint_key, self.settings.outbound),
            checking=state.stored.checking,
        )
        return Planner(cache=state.cache, scene=overlays.scene, admit=state.admission.admit, now=now)

    @property
    def _budget(self) -> Budget:
        return budget_of(self.settings)
