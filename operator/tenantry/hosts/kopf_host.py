"""The host on Kubernetes. kopf logs in, watches and answers probes; its events fill the cache, which wakes the runtime.

kopf keeps nothing on the objects: no handlers of changes, no annotations, no finalizer of its own. Its watches cannot report an
object that went while a watch was broken; where one may have gone, a complete list does.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import kopf
import structlog

from tenantry.hosts.reported_list import ReportedList
from tenantry.hosts.standalone import fill
from tenantry.model.resource import Document, ref_of
from tenantry.model.verdicts import Halt
from tenantry.ports import Feed
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.loop import Runtime

log = structlog.get_logger(__name__)

RELIST_SETTLES_S = 2.0
"""A list anew comes as one event an object: it is judged this long after the last of them."""
FIRST_LIST_S = 10.0
"""Within which kopf's first lists begin to arrive, those of kinds that have objects."""
STOPS_WITHIN_S = 10.0
PAGE = 200
"""Objects a request of a list: a whole one of many objects is several times its size in memory, all kinds at once."""


class Watched(NamedTuple):
    """A kind as kopf finds it. selector: the labels by which the server filters; api_version: `v1` or `group/version`."""

    kind: str
    api_version: str
    plural: str
    selector: str = ""


class Backoffs:
    """Seconds before each further attempt of a request, without end: an outage is waited through. With jitter."""

    def __iter__(self) -> Iterator[float]:
        for attempt in itertools.count():
            yield min(15.0, 0.5 * 2 ** min(attempt, 10)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


class NoDifferences(kopf.DiffBaseStorage):
    """Finds no change of any object, for an operator without handlers of changes.

    kopf asks for the differences of each event, even if nothing handles them, and copies the object twice to find them.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        raise AssertionError("nothing handles changes")


class KopfHost:
    """Follows kinds by kopf, and runs the runtime while it leads.

    normal: a received object as the store serves it. health: `http://HOST:PORT/PATH` of the probe.
    """

    def __init__(
        self,
        feed: Feed,
        cache: Cache,
        runtime: Runtime,
        watched: Iterable[Watched],
        normal: Callable[[Mapping[str, Any], str], Document],
        *,
        health: str,
        resync_s: float,
    ) -> None:
        self._feed = feed
        self._cache = cache
        self._runtime = runtime
        self._watched = tuple(watched)
        self._normal = normal
        self._health = health
        self._resync_s = resync_s
        self._watching = _Watching()
        self._listings: dict[str, ReportedList] = {}
        self._leads = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns once the cache is complete and followed: a warm standby. Raises what ends kopf early."""
        soon = asyncio.get_running_loop().time() + FIRST_LIST_S
        # Of all kinds: the last object of one may go between our list and kopf's, without an event.
        self._listings = {each.kind: ReportedList(soon) for each in self._watched}
        self._watching.start(self._kopf)
        await self._watching.ready()
        for kind in self._watched:
            await fill(self._feed, self._cache, kind.kind)
        self._tasks.append(asyncio.create_task(self._resync(), name="resync"))

    def lead(self) -> None:
        """Start the passes."""
        self._runtime.start()
        self._leads = True

    async def ended(self) -> None:
        """Returns when watching has ended. Raises what ended it."""
        await self._watching.ended()

    async def rest(self) -> None:
        """End the passes; watching goes on."""
        if self._leads:
            self._leads = False
            await self._runtime.stop()

    async def stop(self) -> None:
        """Ends passes first, then watching."""
        await self.rest()
        for task in self._tasks:
            task.cancel()
        await self._watching.stop()

    async def _kopf(self, ready: asyncio.Event, stop: asyncio.Event) -> None:
        # kopf warns that signals do not reach it in a thread: this process handles them itself.
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
        await kopf.operator(
            registry=self._registry(),
            settings=operator_settings(self._watched),
            standalone=True,
            clusterwide=True,
            liveness_endpoint=self._health,
            stop_flag=stop,
            ready_flag=ready,
        )

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(_login)
        kopf.on.probe(id="leads", registry=registry)(self._probe)
        for watched in self._watched:
            group, _, version = watched.api_version.rpartition("/")
            event = kopf.on.event(group=group, version=version, plural=watched.plural, id=watched.kind, registry=registry)
            event(self._handler(watched.kind))
        return registry

    def _handler(self, kind: str) -> Callable[..., Any]:
        async def seen(event: Any, **_: Any) -> None:
            self._watching.call(self._take, kind, event["type"], self._normal(event["object"], kind))

        return seen

    def _probe(self, **_: Any) -> bool:
        return self._leads

    def _take(self, kind: str, type_: str | None, document: Document) -> None:
        """Take an event. type_: None for an object of a list, whose missing objects no event reports."""
        if type_ is None or kind in self._listings:
            now = asyncio.get_running_loop().time()
            self._listings.setdefault(kind, ReportedList(now)).report(ref_of(document)[1:], now, listed=type_ is None)
        if type_ == "DELETED":
            self._cache.remove(document)
            self._cache.settle(ref_of(document))
        else:
            self._cache.absorb(document)

    async def _resync(self) -> None:
        """Ask for complete lists: of a kind that kopf listed without all that is held, and of every kind at intervals."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._resync_s
        while True:
            await asyncio.sleep(RELIST_SETTLES_S / 2 * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
            now = loop.time()
            if now >= due:
                for each in self._watched:
                    self._listings.setdefault(each.kind, ReportedList(now - RELIST_SETTLES_S)).unsure = True
                if self._leads:
                    self._runtime.resync()
                due = now + self._resync_s
            for kind in settled(self._listings, now):
                if self._listings.pop(kind).lacks(self._cache.names(kind)):
                    await self._relist(kind)

    async def _relist(self, kind: str) -> None:
        """Bring a kind of the cache to the complete list. A failure is repeated."""
        try:
            await fill(self._feed, self._cache, kind)
        except Halt as halt:
            log.warning("list failed", kind=kind, error=str(halt))
        except Exception:
            log.exception("list failed", kind=kind)
        else:
            return
        self._listings.setdefault(kind, ReportedList(asyncio.get_running_loop().time())).unsure = True


def settled(listings: Mapping[str, ReportedList], now: float) -> list[str]:
    """Return the kinds whose last event of a list is RELIST_SETTLES_S old."""
    return [kind for kind, listing in listings.items() if now - listing.last >= RELIST_SETTLES_S]


class _Watching:
    """kopf in a thread and a loop of its own: at its end it cancels every task of its loop, whoever began it."""

    def __init__(self) -> None:
        self._ours: asyncio.AbstractEventLoop | None = None
        self._its: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._ended: asyncio.Future[None] | None = None

    def start(self, kopf: Callable[[asyncio.Event, asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        """Runs it with an event that it sets once it is ready, and one that stops it."""
        self._ours = asyncio.get_running_loop()
        self._ended = self._ours.create_future()
        # A daemon: the process ends even if kopf does not.
        threading.Thread(target=self._run, args=(kopf,), name="kopf", daemon=True).start()

    async def ready(self) -> None:
        """Raises what ends it before."""
        assert self._ended is not None
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait((waiting, self._ended), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._ended.done():
            self._ended.result()

    async def ended(self) -> None:
        """Returns when it has ended. Raises what ended it."""
        if self._ended is not None:
            await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """Ends it; gives up after STOPS_WITHIN_S."""
        if self._ended is None:
            return
        if self._its is not None and not self._ended.done():
            self._its.call_soon_threadsafe(self._stop.set)
        await asyncio.wait((self._ended,), timeout=STOPS_WITHIN_S)

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function of ours, from its thread."""
        assert self._ours is not None
        self._ours.call_soon_threadsafe(function, *arguments)

    def _run(self, kopf: Callable[[asyncio.Event, asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        try:
            asyncio.run(self._inside(kopf))
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            self.call(self._settle, error)
        else:
            self.call(self._settle, None)

    async def _inside(self, kopf: Callable[[asyncio.Event, asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        self._its = asyncio.get_running_loop()
        ready = asyncio.Event()
        telling = asyncio.create_task(self._tell(ready))
        try:
            await kopf(ready, self._stop)
        finally:
            telling.cancel()

    async def _tell(self, ready: asyncio.Event) -> None:
        await ready.wait()
        self.call(self._ready.set)

    def _settle(self, error: Exception | None) -> None:
        assert self._ended is not None
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)


def operator_settings(watched: Iterable[Watched]) -> kopf.OperatorSettings:
    """Return settings with which kopf only watches: it keeps nothing on objects, and waits through outages."""
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.queueing.worker_limit = None
    # At the start there is a worker for each object: what it holds goes as soon as it has nothing more to do.
    settings.queueing.idle_timeout = 0.1
    settings.watching.chunk_size = PAGE
    settings.watching.server_timeout = 290
    settings.watching.client_timeout = 320
    settings.watching.connect_timeout = 5
    settings.watching.reconnect_backoff = 0.5
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = Backoffs()
    # No object has a finalizer of this name: kopf removes its own from every object that it sees.
    settings.persistence.finalizer = "tenantry.dev/kopf-unused"
    settings.persistence.diffbase_storage = NoDifferences()
    for each in watched:
        if each.selector:
            settings.watching.label_selectors[each.plural] = each.selector
    return settings


async def _login(settings: kopf.OperatorSettings, **arguments: Any) -> Any:
    with suppress(FileNotFoundError):
        account = kopf.login_with_service_account(settings=settings, **arguments)
        if account is not None:
            return account
    return kopf.login_with_kubeconfig(settings=settings, **arguments)
