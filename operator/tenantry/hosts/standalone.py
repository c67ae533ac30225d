"""The host of one machine: events of the embedded store and of a source in, runtime out. It decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from tenantry.hosts.supervision import Supervisor
from tenantry.model.resource import CREDENTIAL_LABEL, Document, Ref, ref_of
from tenantry.model.tree import SourceProblem, Tree
from tenantry.model.verdicts import Expired, Halt, Problem, described
from tenantry.ports import Feed
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.runtime import FIRST_RETRY, LAST_RETRY, Runtime
from tenantry.runtime.sync import Synced, Syncer

UNREAD = "source"
"""Stands for the file where a source cannot be read at all."""

log = structlog.get_logger(__name__)


async def fill(feed: Feed, cache: Cache, kind: str) -> str:
    """Brings a kind of the cache to what is stored. Returns the version from which to follow."""
    documents, version = await feed.list(kind)
    cache.sweep(kind, (document for document in documents if _kept(document)), int(version))
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


class SourceFeed:
    """Applies a source whenever it changes, and what waited for a namespace as soon as that is there."""

    def __init__(
        self,
        location: str,
        read: Callable[[], Awaitable[Tree]],
        changes: Callable[[], AsyncIterator[None]],
        syncer: Syncer,
        cache: Cache,
        applied: Callable[[Tree], Awaitable[None]] | None = None,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        """location: for people; applied: told of each tree that is applied with nothing left to approve; told: of each write."""
        self.location = location
        self._read = read
        self._changes = changes
        self._applied = applied
        self._told = told
        self.syncer = syncer
        self.last = Synced()
        """What the last sync did."""
        self.tree = Tree()
        self.synced: datetime | None = None
        """When the last sync ended."""
        self._cache = cache
        self._appeared: asyncio.Queue[str] = asyncio.Queue()
        self._incomplete: asyncio.Queue[None] = asyncio.Queue()
        self._asked = asyncio.Event()
        self._turn = asyncio.Lock()
        self._unlisten: Callable[[], None] | None = None
        self._failed = asyncio.Event()

    def turn(self) -> asyncio.Lock:
        """While it is held the source is neither read nor applied."""
        return self._turn

    def ask(self) -> None:
        """Asks for a sync soon; those who ask before it begins get one for all."""
        self._asked.set()

    async def sync(self) -> Synced:
        """Reads and applies the source once. Raises OSError, Halt; a bug becomes a problem of the source."""
        async with self._turn:
            try:
                return await self._take(await self._read())
            except (OSError, Halt):
                raise
            except Exception as bug:
                log.exception("sync failed", source=self.location)
                return self._fail(described(bug))

    async def take(self, tree: Tree) -> Synced:
        """Applies what the source was read to be."""
        async with self._turn:
            return await self._take(tree)

    def _fail(self, why: str) -> Synced:
        """Show why the last sync failed, and try again soon; the last good state stays."""
        fault = SourceProblem(UNREAD, 0, Problem("", f"not read, the last good state stays: {why}"))
        others = (each for each in self.last.problems if each.file != UNREAD)
        self.last = replace(self.last, problems=(fault, *others))
        self._failed.set()
        self._told()
        return self.last

    async def _take(self, tree: Tree) -> Synced:
        before = self.tree, self.last
        self.tree, self.last, self.synced = tree, await self.syncer.sync(tree), datetime.now(UTC)
        _tell_news(before, (self.tree, self.last))
        if self._applied is not None and not self.last.kept and not tree.problems:
            await self._applied(tree)
        self._listen()
        # One may have appeared while the sync ran.
        for namespace in self.syncer.waits_for:
            if self._cache.entry(Ref("Namespace", "", namespace)) is not None:
                self._appeared.put_nowait(namespace)
        if any(not wait.namespace for wait in self.last.waiting):
            self._incomplete.put_nowait(None)
        self._told()
        return self.last

    async def run(self) -> None:
        """Follows the source and the namespaces, without end."""
        unlisten = self._listen()
        each = (
            self._follow_source(),
            self._follow_asked(),
            self._follow_namespaces(),
            self._try_again(),
            self._recover(),
        )
        works = [asyncio.ensure_future(work) for work in each]
        try:
            await asyncio.gather(*works)
        finally:
            for work in works:  # that one of them fails does not end the others
                work.cancel()
            unlisten()
            self._unlisten = None

    def _listen(self) -> Callable[[], None]:
        """Hears of namespaces from now on: what appears between the first sync and `run` is waited for, too."""
        if self._unlisten is None:
            self._unlisten = self._cache.listen(self._seen)
        return self._unlisten

    async def settled(self) -> None:
        """Returns when everything that has appeared so far is taken in, and what failed has been tried again."""
        await self._appeared.join()
        await self._incomplete.join()

    async def _follow_source(self) -> None:
        async for _ in self._changes():
            await self._sync_if_readable()
        raise RuntimeError("changes of the source are not reported any more")

    async def _follow_asked(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._sync_if_readable()

    async def _sync_if_readable(self) -> None:
        try:
            await self.sync()
        except (OSError, Halt) as error:
            log.error("source cannot be read", error=str(error))
            self._fail(str(error))

    async def _follow_namespaces(self) -> None:
        while True:
            appeared = [await self._appeared.get()]
            try:
                async with self._turn:
                    # All at once: one after the other, each would wait for a commit of its own.
                    while not self._appeared.empty():
                        appeared.append(self._appeared.get_nowait())
                    resumed = await self.syncer.resume(*appeared)
                if any(not wait.namespace for wait in resumed.waiting):
                    self._incomplete.put_nowait(None)
                self._told()
            finally:
                for _ in appeared:
                    self._appeared.task_done()

    async def _try_again(self) -> None:
        """What could not be written for a passing reason is written soon."""
        pause = FIRST_RETRY
        while True:
            await self._incomplete.get()
            try:
                await asyncio.sleep(pause)
                await self._sync_if_readable()
                pause = FIRST_RETRY if self._incomplete.empty() else min(LAST_RETRY, 2 * pause)
            finally:
                self._incomplete.task_done()

    async def _recover(self) -> None:
        """What could not be read is read again, less and less often."""
        failures = 0
        while True:
            await self._failed.wait()
            self._failed.clear()
            await asyncio.sleep(min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(failures, 20)))
            await self._sync_if_readable()
            failures = failures + 1 if self._failed.is_set() else 0

    def _seen(self, seen: Seen) -> None:
        if seen.ref.kind == "Namespace" and seen.after is not None and seen.ref.name in self.syncer.waits_for:
            self._appeared.put_nowait(seen.ref.name)


class Standalone:
    """Runs a platform on this machine: follows the store, then the source, and looks at everything again now and then."""

    def __init__(self, feed: Feed, cache: Cache, runtime: Runtime, kinds: Iterable[str], resync_s: float) -> None:
        self._feed, self._cache, self._kinds = feed, cache, kinds
        self._runtime = runtime
        self._resync_s = resync_s
        self.supervisor = Supervisor()
        self._held = AsyncExitStack()

    async def start(self) -> None:
        """Returns once the cache is complete and passes run."""
        await self._held.enter_async_context(following(self._feed, self._cache, self._kinds, self.supervisor))
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


def _tell_news(before: tuple[Tree, Synced], after: tuple[Tree, Synced]) -> None:
    """Logs what a sync has found that the one before it had not."""
    known = {str(problem) for problem in before[1].problems}
    for problem in after[1].problems:
        if str(problem) not in known:
            log.error("source refused", problem=str(problem))
    shown = {each.ref for each in before[0].exposed}
    for each in after[0].exposed:
        if each.ref not in shown:
            log.warning("secret is not encrypted in the repository", object=str(each.ref), place=str(each.place))
    if after[0].away != before[0].away:
        if after[0].away:
            log.error("source cannot be read", why=after[0].away)
        else:
            log.info("source can be read again")
