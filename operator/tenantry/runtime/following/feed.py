"""One source, followed: read and applied at each change, and again when a namespace appears or something failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from tenantry.model.resource import Ref
from tenantry.model.tree import SourceProblem, Tree
from tenantry.model.verdicts import Halt, Problem, described
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.reconcile.loop import FIRST_RETRY, LAST_RETRY
from tenantry.runtime.sources.news import News, of_source
from tenantry.runtime.sources.sync import Synced, Syncer

UNREAD = "source"
"""Stands for the file where a source cannot be read at all."""

log = structlog.get_logger(__name__)


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
        """Follow one source. location: for people; applied: receives each tree that is applied with nothing left to approve;
        `told`: called at each write."""
        self.location = location
        self._read = read
        self._changes = changes
        self._applied = applied
        self._told = told
        self.syncer = syncer
        self.last = Synced()
        """The result of the last sync."""
        self.tree = Tree()
        self.synced: datetime | None = None
        """The end of the last sync."""
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
        log_news(of_source(before, (self.tree, self.last)))
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
        raise RuntimeError("changes of the source are no longer reported")

    async def _follow_asked(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._sync_if_readable()

    async def _sync_if_readable(self) -> None:
        try:
            await self.sync()
        except (OSError, Halt) as error:
            log.error("source cannot be read", message=str(error))
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
        """Retry soon the writes that failed for a passing reason."""
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
        """Read an unreadable source again, less and less often."""
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


def log_news(events: Iterable[News]) -> None:
    """Log each event, as a warning if somebody must act."""
    for news in events:
        write = log.warning if news.bad else log.info
        write(news.event, object=news.about, message=news.message)
