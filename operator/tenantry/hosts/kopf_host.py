"""The host on Kubernetes. kopf logs in, watches and answers probes; its events fill the cache, which wakes the runtime.

kopf keeps nothing on the objects: no handlers of changes, no annotations, no finalizer of its own. It lists a kind to learn from
which version to watch; the objects come by a list of ours, which follows each of kopf's.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
import kopf
import structlog

from tenantry.adapters.kubernetes.client.credentials import ServerAccess
from tenantry.hosts.standalone import fill
from tenantry.model.resource import Document, Ref, ref_of
from tenantry.model.verdicts import Halt
from tenantry.ports import Feed
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.loop import Runtime

log = structlog.get_logger(__name__)

FIRST_LISTS_S = 10.0
"""Within which kopf has listed every kind for the first time. One that is later is listed twice."""
AGAIN_S = 1.0
"""The pause before a list that failed is asked for again."""
STOPS_WITHIN_S = 10.0
NOTHING = "metadata.name=-"
"""A field selector that no object meets."""


class Watched(NamedTuple):
    """A kind as kopf finds it. selector: the labels by which the server filters; api_version: `v1` or `group/version`."""

    kind: str
    api_version: str
    plural: str
    selector: str = ""

    @property
    def path(self) -> str:
        """The end of the URL's path by which it is listed and watched in all namespaces."""
        return f"/{self.api_version}/{self.plural}"


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


@dataclass(frozen=True, kw_only=True)
class KopfSession(kopf.AiohttpSession):
    """The session by which kopf speaks to the API server. Equal to another one with the same credentials: kopf does not try
    again what was refused."""

    aiohttp_session: aiohttp.ClientSession = field(compare=False)
    authorization: str


class EmptyLists:
    """Lets kopf list no objects, and reports each list. Called in kopf's loop.

    kopf has a task, a queue and several dictionaries for each object that it lists: with 10,000 objects, a third of a start.
    """

    def __init__(self, watched: Iterable[Watched], listed: Callable[[str], None]) -> None:
        self._kinds = {each.path: each.kind for each in watched}
        self._listed = listed

    async def __call__(self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        kind = next((kind for path, kind in self._kinds.items() if request.url.path.endswith(path)), None)
        if kind is None or "watch" in request.url.query:
            return await send(request)
        request.url = request.url.update_query(fieldSelector=NOTHING)
        answer = await send(request)
        if answer.ok:
            self._listed(kind)
        return answer


class KopfHost:
    """Follows kinds by kopf, and runs the runtime while it leads.

    access: to the API server, read anew whenever it is called; in kopf's loop. normal: a received object as the store serves it.
    health: `http://HOST:PORT/PATH` of the probe.
    """

    def __init__(
        self,
        feed: Feed,
        cache: Cache,
        runtime: Runtime,
        watched: Iterable[Watched],
        access: Callable[[], Awaitable[ServerAccess]],
        normal: Callable[[Mapping[str, Any], str], Document],
        *,
        health: str,
        resync_s: float,
    ) -> None:
        self._feed = feed
        self._cache = cache
        self._runtime = runtime
        self._watched = tuple(watched)
        self._access = access
        self._normal = normal
        self._health = health
        self._resync_s = resync_s
        self._watching = _Watching()
        self._asked: set[str] = set()
        self._asks = asyncio.Event()
        self._listing: dict[str, list[Ref]] = {}
        """The kinds of which a list is under way, and which of their objects have gone since it was asked for."""
        self._leads = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns once the cache is complete and followed: a warm standby. Raises what ends kopf early."""
        self._watching.start(self._kopf)
        await self._watching.unless_ended(self._first_lists())
        for each in self._watched:
            await self._list(each.kind)
        self._tasks.append(asyncio.create_task(self._follow_lists(), name="lists"))

    async def _first_lists(self) -> None:
        """Returns once kopf has listed every kind. What it lists later is listed again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LISTS_S):
                while len(self._asked) < len(self._watched):
                    self._asks.clear()
                    await self._asks.wait()

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

    async def _kopf(self, stop: asyncio.Event) -> None:
        # kopf warns that signals do not reach it in a thread: this process handles them itself.
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
        await kopf.operator(
            registry=self._registry(),
            settings=operator_settings(self._watched),
            standalone=True,
            clusterwide=True,
            liveness_endpoint=self._health,
            stop_flag=stop,
        )

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login)
        kopf.on.probe(id="leads", registry=registry)(self._probe)
        for watched in self._watched:
            group, _, version = watched.api_version.rpartition("/")
            event = kopf.on.event(group=group, version=version, plural=watched.plural, id=watched.kind, registry=registry)
            event(self._handler(watched.kind))
        return registry

    async def _login(self, **_: Any) -> KopfSession:
        access = await self._access()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=access.tls or True),
            headers={"Authorization": access.authorization} if access.authorization else {},
            middlewares=(EmptyLists(self._watched, lambda kind: self._watching.call(self._ask, kind)),),
            proxy=access.proxy,
        )
        return KopfSession(server=access.server, aiohttp_session=session, authorization=access.authorization)

    def _handler(self, kind: str) -> Callable[..., Any]:
        async def seen(event: Any, **_: Any) -> None:
            self._watching.call(self._take, kind, event["type"], self._normal(event["object"], kind))

        return seen

    def _probe(self, **_: Any) -> bool:
        return self._leads

    def _take(self, kind: str, type_: str | None, document: Document) -> None:
        if type_ != "DELETED":
            self._cache.absorb(document)
            return
        self._cache.remove(document)
        if kind in self._listing:
            self._listing[kind].append(ref_of(document))  # the list may still have it
        else:
            self._cache.settle(ref_of(document))

    def _ask(self, kind: str) -> None:
        """Note that a kind is to be listed."""
        self._asked.add(kind)
        self._asks.set()

    async def _follow_lists(self) -> None:
        """List a kind after kopf did, which may have missed what went meanwhile; and every kind at intervals."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._resync_s
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._asks.wait()
            if loop.time() >= due:
                self._asked.update(each.kind for each in self._watched)
                if self._leads:
                    self._runtime.resync()
                due = loop.time() + self._resync_s
            self._asks.clear()
            for kind in sorted(self._asked):
                await self._list_or_ask_again(kind)

    async def _list_or_ask_again(self, kind: str) -> None:
        try:
            await self._list(kind)
        except Halt as halt:
            log.warning("list failed", kind=kind, error=str(halt))
        except Exception:
            log.exception("list failed", kind=kind)
        else:
            return
        pause = AGAIN_S * random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
        asyncio.get_running_loop().call_later(pause, self._ask, kind)

    async def _list(self, kind: str) -> None:
        """Bring a kind of the cache to the complete list."""
        self._asked.discard(kind)
        self._listing[kind] = []
        try:
            await fill(self._feed, self._cache, kind)
        finally:
            for ref in self._listing.pop(kind):
                self._cache.settle(ref)


class _Watching:
    """kopf in a thread and a loop of its own: at its end it cancels every task of its loop, whoever began it."""

    def __init__(self) -> None:
        self._ours: asyncio.AbstractEventLoop | None = None
        self._its: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._ended: asyncio.Future[None] | None = None

    def start(self, kopf: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        """Runs it with an event that stops it."""
        self._ours = asyncio.get_running_loop()
        self._ended = self._ours.create_future()
        # A daemon: the process ends even if kopf does not.
        threading.Thread(target=self._run, args=(kopf,), name="kopf", daemon=True).start()

    async def unless_ended(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for that. Raises what ends it before."""
        assert self._ended is not None
        task = asyncio.create_task(waiting)
        await asyncio.wait((task, self._ended), return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
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

    def _run(self, kopf: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        try:
            asyncio.run(self._inside(kopf))
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            self.call(self._settle, error)
        else:
            self.call(self._settle, None)

    async def _inside(self, kopf: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        self._its = asyncio.get_running_loop()
        await kopf(self._stop)

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
    # Each object that changes has a worker: what it holds goes as soon as it has nothing more to do.
    settings.queueing.idle_timeout = 0.1
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
