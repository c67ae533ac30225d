"""The crash campaign's parts: a platform that dies at a chosen write or effect, and a portrait of what it then becomes."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenantry.adapters.store.embedded import EmbeddedStore
from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Halt, Transient
from tenantry.ports import Event, Hands, World
from tenantry.runtime.reconcile.following import TrackedView
from tests.support.store_faults import REFUSALS, Crash, Fault, FaultPoint, FaultyStore

URL = "http://127.0.0.1:8080"
CONVERGES_S = 120.0
EFFECTS = frozenset(
    {"deploy", "undeploy", "snapshot"}
    | {"upload", "install", "uninstall", "drop_data", "delete_version"}
    | {"add_identity", "set_password", "set_roles", "delete_identity"}
    | {"add_identity_provider", "edit_identity_provider", "delete_identity_provider"}
)


class Doom(FaultPoint):
    """A fault point that stays: once it has struck as a crash, the process is dead and nothing is written any more."""

    def __init__(self, at: int = 0, fault: Fault = Fault.CRASH_BEFORE) -> None:
        super().__init__(at, fault)
        self.died = asyncio.Event()

    def next(self) -> Fault | None:
        if self.died.is_set():
            raise Crash("dead already")
        fault = super().next()
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self.died.set()
        return fault


class MortalStore(FaultyStore):
    """An embedded store whose writes are counted by a Doom."""

    def __init__(self, store: EmbeddedStore, doom: Doom) -> None:
        super().__init__(store, doom)
        self.inner = store
        self._doom = doom

    @property
    def version(self) -> str:
        return self.inner.version

    async def list(self, kind: str) -> tuple[Sequence[Document], str]:
        return await self.inner.list(kind)

    def pages(self, kind: str) -> AsyncIterator[tuple[Sequence[Document], str]]:
        return self.inner.pages(kind)

    def watch(self, kind: str, version: str) -> AsyncIterator[Event]:
        return self.inner.watch(kind, version)

    async def inside(self, namespace: str) -> Sequence[Ref]:
        return await self.inner.inside(namespace)

    async def close(self) -> None:
        await self.inner.close()


class Mortal:
    """Any port whose effects are counted by a Doom."""

    def __init__(self, port: Any, doom: Doom) -> None:
        self._port = port
        self._doom = doom

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        if name == "at":
            return lambda endpoint: Mortal(attribute(endpoint), self._doom)
        return self._counted(name, attribute) if name in EFFECTS else attribute

    def _counted(self, name: str, effect: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def carried_out(*arguments: Any, **options: Any) -> Any:
            fault = self._doom.next()
            if fault is Fault.CRASH_BEFORE:
                raise Crash(name)
            if fault in (Fault.TRANSIENT, Fault.TOO_MANY, Fault.CONFLICT):
                raise Halt(Transient(REFUSALS.get(fault, "Unavailable"), name))
            result = await effect(*arguments, **options)
            if fault is Fault.CRASH_AFTER:
                raise Crash(name)
            if fault is Fault.ANSWER_LOST:
                raise Halt(Transient("AnswerLost", name))
            return result

        return carried_out


@dataclass(frozen=True)
class MortalPorts:
    """runtime.cycle.PassPorts whose hands can die."""

    real: Any
    doom: Doom

    def world(self, view: TrackedView) -> World:
        world: World = self.real.world(view)
        return world

    def hands(self, origin: Ref) -> Hands:
        hands: Hands = self.real.hands(origin)
        return replace(hands, deployer=Mortal(hands.deployer, self.doom), engines=Mortal(hands.engines, self.doom))


async def run(state: Path, source: Path, doom: Doom | None = None, *, approve: bool = False) -> dict[str, Any] | None:
    """Runs a platform on that state until it has converged, and returns its portrait; None when it died.

    approve: what the source keeps because it holds data is pruned after all.
    """
    doom = doom or Doom()
    store = await SqliteStore.open(state, Admission())
    platform = await Platform.open(state, URL, store=MortalStore(store, doom))  # type: ignore[arg-type]
    platform.runtime._cycle._ports = MortalPorts(platform.ports, doom)
    platform.attach(source, "default")
    work = asyncio.create_task(_converge(platform, approve))
    death = asyncio.create_task(doom.died.wait())
    try:
        await asyncio.wait((work, death), return_when=asyncio.FIRST_COMPLETED, timeout=CONVERGES_S)
        if doom.died.is_set():
            return None
        assert work.done(), f"has not converged in {CONVERGES_S} s"
        await work
        return await portrait(platform)
    finally:
        for task in (work, death):
            task.cancel()
        await asyncio.gather(work, death, return_exceptions=True)
        await platform.close()


async def _converge(platform: Platform, approve: bool) -> None:
    await platform.start()
    await platform.converged()
    if approve and platform.source is not None:
        platform.source.syncer.approve()
        await platform.source.sync()
        await platform.converged()


async def portrait(platform: Platform) -> dict[str, Any]:
    """All objects, without the values that differ from run to run: times, versions, ids."""
    objects = {}
    for kind in TYPES:
        for resource in platform.state.cache.resources(kind):
            if kind != "Operation":
                objects[str(resource.ref)] = _shape(resource.metadata.deletion_timestamp is not None, resource)
    operations = Counter(
        (op.spec.action, op.spec.subject, op.spec.target.name, op.status.status, op.status.result)
        for op in platform.state.cache.resources("Operation")
    )
    engines = {}
    for environment in platform.state.cache.resources("Environment"):
        engine = environment.status.engine
        if engine is not None:
            admin = platform.engines.at(EngineEndpoint(environment.id, engine.url))
            engines[str(environment.ref)] = {
                "apps": sorted((app.id, app.version, sorted(app.versions), app.persisted) for app in await admin.apps()),
                "identities": sorted((one.username, sorted(one.roles.items())) for one in await admin.identities()),
                "providers": sorted(one.settings.name for one in await admin.identity_providers()),
                "rows": _rows(platform.state.folder / "engines" / environment.id / "engine.db"),
            }
    return {
        "objects": objects,
        "operations": sorted(operations.items()),
        "engines": engines,
        "files": _files(platform.state.folder),
    }


def _shape(deleting: bool, resource: Any) -> Any:
    ready = resource.status.condition("Ready")
    spec = resource.spec.to_json() if hasattr(resource.spec, "to_json") else {}
    return (deleting, spec, (ready.status, ready.reason) if ready else None, resource.metadata.finalizers)


def _rows(database: Path) -> dict[str, int]:
    """Rows by table of the apps in an engine."""
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%!_!_%' ESCAPE '!'"
        names = [name for (name,) in connection.execute(query)]
        return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in sorted(names)}


def _files(state: Path) -> dict[str, int]:
    """The number of files in each folder of the state: nothing may be left behind."""
    transient = ("-wal", "-shm", ".sock", "lock")
    files = [path for path in state.rglob("*") if path.is_file() and not path.name.endswith(transient)]
    return dict(sorted(Counter(path.relative_to(state).parts[0] for path in files).items()))


def copy_of(state: Path, to: Path) -> Path:
    """A state folder as it was."""
    shutil.rmtree(to, ignore_errors=True)
    # Packages are hard links to a pool, and a copy must be as well.
    subprocess.run(["cp", "-a", state, to], check=True)
    return to
