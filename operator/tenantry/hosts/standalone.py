"""The host of one machine: events of the embedded store and of a source in, runtime out. It decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from tenantry.hosts.supervision import Supervisor
from tenantry.model.resource import CREDENTIAL_LABEL, Document, ref_of
from tenantry.model.verdicts import Expired
from tenantry.ports import Feed
from tenantry.runtime.cache import Cache, Name
from tenantry.runtime.reconcile.loop import Runtime

UNREAD = "source"
"""Stands for the file where a source cannot be read at all."""

log = structlog.get_logger(__name__)


async def listed(feed: Feed, kind: str) -> tuple[Sequence[Document], str]:
    """Return all objects of a kind, and the version from which to watch."""
    found: list[Document] = []
    version = ""
    async for documents, at in feed.pages(kind):
        if at != version:
            found.clear()
        found += documents
        version = at
    return found, version


async def fill(feed: Feed, cache: Cache, kind: str) -> str:
    """Brings a kind of the cache to what is stored. Returns the version from which to follow."""
    there: set[Name] = set()
    version = ""
    async for documents, at in feed.pages(kind):  # all objects of a kind at once would be the most that a process ever holds
        if at != version:
            there.clear()
        version = at
        for document in filter(_kept, documents):
            there.add(ref_of(document)[1:])
            cache.absorb(document)
    cache.sweep(kind, there, int(version))
    return version


async def follow(feed: Feed, cache: Cache, kind: str, version: str = "") -> None:
    """Keeps a kind of the cache abreast, without end. version: as of `fill`; `""`: the kind is listed first."""
    version = version or await fill(feed, cache, kind)
    while True:
        try:
            async for event in feed.watch(kind, version):
                # Most are our own writes, absorbed when they were answered.
                if event.type == "DELETED" or not cache.knows(event.ref, int(event.version)):
                    _take(cache, event.type, event.document)
        except Expired:
            version = await fill(feed, cache, kind)


def _take(cache: Cache, type_: str, document: Document) -> None:
    if type_ == "DELETED":
        cache.remove(document)
        cache.settle(ref_of(document))
    elif _kept(document):
        cache.absorb(document)


def _kept(document: Document) -> bool:
    """Secrets that are nobody's credential are none of our business."""
    return document["kind"] != "Secret" or CREDENTIAL_LABEL in (document["metadata"].get("labels") or {})


@asynccontextmanager
async def following(feed: Feed, cache: Cache, kinds: Iterable[str], supervisor: Supervisor) -> AsyncIterator[None]:
    """The cache is complete when the block begins, and kept abreast until it ends."""
    for kind, version in {kind: await fill(feed, cache, kind) for kind in kinds}.items():
        supervisor.run(_keeper(feed, cache, kind, version), f"follow-{kind}")
    yield


def _keeper(feed: Feed, cache: Cache, kind: str, version: str) -> Callable[[], Awaitable[None]]:
    """Follows a kind from a version; when it is restarted, which may have missed something, from a new list."""
    versions = iter([version])
    return lambda: follow(feed, cache, kind, next(versions, ""))


class Standalone:
    """Runs a platform on this machine: follows the store, then the source, and looks at everything again now and then."""

    def __init__(self, feed: Feed, cache: Cache, runtime: Runtime, kinds: Iterable[str], resync_s: float) -> None:
        self._feed, self._cache, self._kinds = feed, cache, kinds
        self._runtime = runtime
        self._resync_s = resync_s
        self.supervisor = Supervisor()
        self._held = AsyncExitStack()
        self._filling = asyncio.Lock()
        self._follows = False

    async def follow(self) -> None:
        """Returns once the cache is complete. It is kept abreast from then on."""
        async with self._filling:
            if not self._follows:
                await self._held.enter_async_context(following(self._feed, self._cache, self._kinds, self.supervisor))
                self._follows = True

    async def start(self) -> None:
        """Returns once the cache is complete and passes run."""
        await self.follow()
        self._runtime.start()
        self.run(self._resync, "resync")

    def run(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Runs work that has no end until the host stops; it is restarted when it fails."""
        self.supervisor.run(work, name)

    async def stop(self) -> None:
        """Ends everything that `start` and `run` began."""
        await self.supervisor.stop()
        await self._held.aclose()
        await self._runtime.stop()

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_s)
            self._runtime.resync()
