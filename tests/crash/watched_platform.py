"""A platform that sees its store through a faulty feed only: others write, and the watch is how it learns of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tenantry.adapters.store.event_log import EventLog
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.store.semantics import Request
from tenantry.bootstrap.embedded import Platform
from tenantry.bootstrap.pass_ports import Ports
from tenantry.hosts.standalone import Standalone
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import FOLLOWED
from tenantry.model.facts import Caller, EngineSpec
from tenantry.model.resource import API_VERSION, CREDENTIAL_LABEL, Document, Ref, held_of, ref_of
from tenantry.model.verdicts import AlreadyExists, Conflict, NotFound
from tenantry.ports import Hands, World
from tenantry.runtime.reconcile.following import TrackedView
from tenantry.settings import Settings
from tests.crash.campaign import URL, Doom, MortalPorts, MortalStore, copy_of, portrait
from tests.crash.faulty_feed import FaultyFeed
from tests.support.waiting import eventually

ADMISSION = Admission()
SETTLES_S = 60.0
EVENTS_KEPT = 100_000
Moment = Mapping[str, tuple[Sequence[Document], str]]
"""The lists of all kinds at one time."""
RESYNC_S = 3600.0
"""Far away: what a watch loses must be found by the watch, not by the next look at everything."""
LOOKS = timedelta(seconds=1)
"""Tests let it look at everything whenever they want. Such passes are planned, and no sign of a loop."""


class CountingDeployer:
    """A deployer that counts the engines that it makes, by the environment's id."""

    def __init__(self, port: Any, made: Counter[str]) -> None:
        self._port = port
        self._made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool = False) -> None:
        """Count it when there was none."""
        fresh = await self._port.engine(spec.ref) is None
        try:
            await self._port.deploy(spec, admin_secret, keeps_pod)
        finally:  # a process that dies right after has made it, too
            if fresh and await self._port.engine(spec.ref) is not None:
                self._made[spec.ref.id] += 1


@dataclass(frozen=True)
class CountingPassPorts:
    """runtime.cycle.PassPorts whose deployer counts."""

    real: Any
    made: Counter[str]

    def world(self, view: TrackedView) -> World:
        """Return what a pass may see."""
        world: World = self.real.world(view)
        return world

    def hands(self, origin: Ref) -> Hands:
        """Return what a pass may touch."""
        hands: Hands = self.real.hands(origin)
        return replace(hands, deployer=CountingDeployer(hands.deployer, self.made))


@dataclass
class Cluster:
    """A store that outlives its operators, their state folder, and the engines that all of them made together."""

    state: Path
    store: MemoryStore = field(default_factory=lambda: MemoryStore(ADMISSION, events_kept=EVENTS_KEPT))
    made: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def operator(
        self,
        feed: FaultyFeed | None = None,
        doom: Doom | None = None,
        through: Callable[[Ports], Ports] = lambda ports: ports,
    ) -> AsyncIterator[Watched]:
        """Run an operator that sees the store through the feed. doom: counts its writes and effects, and may strike one.

        through: gives the ports that it uses instead of its own."""
        self.state.mkdir(exist_ok=True, parents=True)
        feed = feed or FaultyFeed(self.store)
        doom = doom or Doom()
        platform = await Platform.open(self.state, URL, MortalStore(self.store, doom), Settings(resync=LOOKS))  # type: ignore[arg-type]
        platform.runtime._cycle._ports = CountingPassPorts(MortalPorts(through(platform.ports), doom), self.made)
        platform.host = Standalone(feed, platform.state.cache, platform.runtime, FOLLOWED, RESYNC_S)
        try:
            await platform.start()
            yield Watched(platform, feed, doom)
        finally:
            await platform.close()

    def recorded(self) -> list[Moment]:
        """Return a list that gains what the store holds, after each write from now on."""
        moments: list[Moment] = []
        submit = self.store.submit

        async def recording(request: Request, caller: Caller | None) -> Document:
            stored = await submit(request, caller)
            moments.append({kind: await self.store.list(kind) for kind in FOLLOWED})
            return stored

        self.store.submit = recording  # type: ignore[method-assign]
        return moments

    def copy(self, state: Path) -> Cluster:
        """Return another of the same content and history."""
        rows = [(ref, body) for kind in self.store._rows.kinds.values() for ref, body in kind.items()]
        store = MemoryStore(ADMISSION, bodies=rows, version=int(self.store.version))
        store._log = EventLog(0, EVENTS_KEPT, store._codec.decode)
        for kind, entries in self.store._log._entries.items():
            store._log._entries[kind].extend(entries)
        return Cluster(copy_of(self.state, state), store, self.made.copy())

    async def declare(self, documents: list[Document]) -> None:
        """Write what another process would: create, replace, delete what is no longer declared."""
        wanted = {ref_of(each): each for each in documents}
        for kind in ("IdentityProvider", "Identity", "Environment", "Tenant", "Region"):
            for there in (await self.store.list(kind))[0]:
                if ref_of(there) not in wanted and not there["metadata"].get("deletionTimestamp"):
                    await self.store.delete(held_of(there)._replace(version=""))
        for ref, document in wanted.items():
            await self._write(ref, document)

    async def _write(self, ref: Ref, document: Document) -> None:
        """Wait until the namespace is there; the operator makes it."""
        async with asyncio.timeout(SETTLES_S):
            while True:
                try:
                    there = await self.store.get(ref)
                    metadata = {**document["metadata"], "uid": there["metadata"]["uid"]}
                    await self.store.replace({**document, "metadata": metadata}, there["metadata"]["resourceVersion"])
                    return
                except NotFound:
                    try:
                        await self.store.create(document)
                        return
                    except (NotFound, AlreadyExists):
                        await asyncio.sleep(0.01)  # the namespace is still to come
                except Conflict:
                    await asyncio.sleep(0.01)

    def engines(self) -> list[str]:
        """Return the ids of the environments that have an engine on this machine."""
        with closing(sqlite3.connect(self.state / "engines" / "engines.db")) as database:
            return sorted(id_ for (id_,) in database.execute("SELECT id FROM engines"))

    async def gone(self, ref: Ref) -> None:
        """Return once an object is gone."""

        async def is_gone() -> bool:
            return not await self._is(ref)

        await eventually(is_gone, within=SETTLES_S)

    async def _is(self, ref: Ref) -> bool:
        try:
            await self.store.get(ref)
        except NotFound:
            return False
        return True


@dataclass
class Watched:
    """An operator at work."""

    platform: Platform
    feed: FaultyFeed
    doom: Doom

    async def settled(self, within: float = SETTLES_S) -> None:
        """Return once it has seen everything that was written, and nothing is left to do."""

        async def is_settled() -> bool:
            await self.platform.runtime.idle()
            return self.feed.caught_up() and not self.platform.runtime.busy

        await eventually(is_settled, within=within)

    async def portrait(self) -> dict[str, Any]:
        """Return what there is, without what differs from run to run."""
        return await portrait(self.platform)


def sharing(ports: Ports, beside: Watched) -> Ports:
    """Return the ports with the engines of another operator: those are outside of both."""
    others = beside.platform.ports
    return replace(ports, deployer=others.deployer, engines=others.engines, fingerprint_key=others.fingerprint_key)


def document(kind: str, name: str, namespace: str = "", **spec: Any) -> Document:
    """Return a declaration."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, **where}, "spec": spec}


def environment(tenant: str, name: str, **spec: Any) -> Document:
    """Return an Environment that goes with its data."""
    return document("Environment", name, f"tenant-{tenant}", region="eu", deletionPolicy="Delete", **spec)


def secret(namespace: str, name: str, password: str) -> Document:
    """Return the Secret of an Identity."""
    labels: Mapping[str, str] = {CREDENTIAL_LABEL: "identity"}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": password}}
