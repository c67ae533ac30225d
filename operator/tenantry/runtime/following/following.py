"""ports.Sources: follows the repositories of Sources beside the passes, each by the feed that serves `tenantry up`, too."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from tenantry.kinds.source.spec import Source
from tenantry.model.facts import Caller
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref, is_ready, ref_of, why
from tenantry.model.syncing import Followed, KeptBack, SyncOrder, approval_of, source_label
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Conflict, Halt, NotFound, Stalled, Transient, Waiting
from tenantry.model.wording import agreeing, counted
from tenantry.ports import Declarations, Store
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.following.feed import SourceFeed
from tenantry.runtime.following.turns import turn_of
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.declaring import released
from tenantry.runtime.sources.holding import Holding
from tenantry.runtime.sources.inventory import CacheLists, Changes, owned_by
from tenantry.runtime.sources.pruning import Budget, Kept, is_exempt
from tenantry.runtime.sources.sync import Syncer

TENANT_READS = 8
"""Repositories of tenants that are read at once, one of each tenant."""
TENANT_SOURCES = 5
"""Sources that a tenant has at a time: each keeps a copy of its repository here."""
TENANT_ROLE = "ADMIN"
UNCONDITIONED = ("Namespace", "Secret")
"""The kinds that say nothing of being Ready."""
TELL_AGAIN = timedelta(minutes=5)
"""The interval of reports without news on a Source: each is a reconcile, and a write of its status."""

log = structlog.get_logger(__name__)


class Opened(Protocol):
    """A repository that is ready to be read; see SourceFeed."""

    @property
    def read(self) -> Callable[[], Awaitable[Tree]]:
        """Reads it."""

    @property
    def changes(self) -> Callable[[], AsyncIterator[None]]:
        """Waits for changes, without end."""

    @property
    def applied(self) -> Callable[[Tree], Awaitable[None]]:
        """Receives each tree that is applied."""

    @property
    def declarations(self) -> Declarations | None:
        """The place for writes, None for a Source that takes none."""


class Repositories(Protocol):
    """The store of the repositories of Sources."""

    async def open(self, order: SyncOrder) -> Opened:
        """Makes one readable; the remote is not asked yet. Raises Halt."""

    async def discard(self, uid: str) -> None:
        """Removes what is kept of it. Idempotent."""


@dataclass
class _One:
    """A followed Source. reading: the order of its last read; stopping: its task was asked to end.

    objects: the version at which its objects were counted, and their number.
    """

    order: SyncOrder
    reading: SyncOrder
    settled: str
    objects: tuple[str, int] = ("", 0)
    released: tuple[str, ...] = ()
    task: asyncio.Task[None] | None = None
    feed: SourceFeed | None = None
    declarations: Declarations | None = None
    stopping: bool = False

    @property
    def runs(self) -> bool:
        return self.task is not None and not self.task.done() and not self.stopping


class SourceFollowing:
    """ports.Sources. finalized: the kinds whose objects are created with our finalizer; ended: called with each Source that
    has news."""

    def __init__(
        self,
        store: WritingStore,
        cache: Cache,
        repositories: Repositories,
        finalized: Container[str],
        ended: Callable[[Ref], None],
        holding: Holding,
    ) -> None:
        self._holding = holding
        self._store = store
        self._cache = cache
        self._repositories = repositories
        self._finalized = finalized
        self._ended = ended
        self._running: dict[Ref, _One] = {}
        self._facts: dict[Ref, Followed] = {}
        self._slots = asyncio.Semaphore(TENANT_READS)
        self._of_tenant: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(1))
        self._unlisten = cache.listen(self._seen)
        self._changes = Changes(cache)

    def look(self, source: Ref, uid: str) -> Followed | None:
        facts = self._facts.get(source)
        return facts if facts is not None and facts.order.uid == uid else None

    def owned(self, source: Ref) -> int:
        return sum(1 for _ in owned_by(self._cache, source_label(source), _scope(source)))

    def unready(self, source: Ref) -> tuple[str, ...]:
        owned = owned_by(self._cache, source_label(source), _scope(source))
        waited = (each for each in owned if each["kind"] not in UNCONDITIONED and ref_of(each) != source)
        return tuple(": ".join(filter(None, why(each))) for each in waited if not is_ready(each))

    async def follow(self, order: SyncOrder) -> None:
        one = self._running.get(order.source)
        if one is not None and one.runs and one.order.settings == order.settings:
            if one.order != order:
                one.order = order
                if one.feed is not None:
                    one.feed.ask()
            return
        await self._stop(order.source)
        one = self._running[order.source] = _One(order, order, order.settled)
        one.task = asyncio.create_task(self._run(one), name=f"source {order.source}")

    async def stop(self, source: Ref, uid: str) -> None:
        await self._stop(source)
        self._facts.pop(source, None)
        await self._repositories.discard(uid)

    async def leave(self, order: SyncOrder, prune: bool) -> None:
        await self._stop(order.source)
        kept = await self._prune_all(order) if prune else ()
        for document in tuple(owned_by(self._cache, order.owner, _scope(order.source))):
            if not prune or is_exempt(document):
                await self._release(document)
        left = self.owned(order.source)
        self._facts[order.source] = Followed(order, ended=_now(), objects=left, kept=kept)
        if left > len(kept):
            changed = left - len(kept)
            raise Conflict(f"{counted(changed, 'object')} {agreeing(changed, 'has')} changed since the list was made; try again")

    @asynccontextmanager
    async def turn(self, source: Ref, within_s: float) -> AsyncIterator[Declarations]:
        """A turn at writing a Source's declarations, see runtime.write_back.WriteBack. Raises a Halt where it is not followed."""
        one = self._running.get(source)
        if one is None or one.feed is None or one.declarations is None:
            raise _unfollowed(source)
        async with turn_of(one.feed, one.declarations, within_s) as declarations:
            if not one.runs:
                raise _unfollowed(source)
            yield declarations

    async def hand_over(self, covers: Callable[[Ref], bool]) -> None:
        """End the following of these Sources, which another process follows from now on."""
        for source in [each for each in self._running if covers(each)]:
            await self._stop(source)
        for source in [each for each in self._facts if covers(each)]:
            del self._facts[source]

    async def aclose(self) -> None:
        """Ends all of it, and waits for that."""
        self._unlisten()
        self._changes.close()
        for source in tuple(self._running):
            await self._stop(source)

    async def _stop(self, source: Ref) -> None:
        one = self._running.pop(source, None)
        if one is None or one.task is None:
            return
        one.stopping = True
        one.task.cancel()
        await asyncio.wait([one.task])
        if one.feed is not None:
            async with one.feed.turn():  # a writer uses the copy of the repository
                return

    def _seen(self, seen: Seen) -> None:
        """One that is suspended, or gone, is followed no longer, whatever it is doing."""
        if seen.ref.kind != Source.KIND or seen.ref not in self._running | self._facts:
            return
        source = self._cache.resource(seen.ref)
        if isinstance(source, Source) and (not source.suspended or source.deleting):
            return
        self._facts.pop(seen.ref, None)
        one = self._running.get(seen.ref)
        if one is not None and one.task is not None:
            one.stopping = True
            one.task.cancel()

    async def _run(self, one: _One) -> None:
        failure: Stalled | Waiting | Transient
        try:
            await self._follow(one)
            return
        except Halt as halt:
            failure = halt.verdict
        except OSError as error:
            failure = Transient("DiskFailed", str(error))
        except Exception as bug:
            log.exception("following failed", source=str(one.order.source))
            failure = Transient("InternalError", str(bug))
        self._facts[one.order.source] = Followed(one.reading, failure)
        self._ended(one.order.source)

    async def _follow(self, one: _One) -> None:
        """Without end."""
        order = one.order
        if order.tenant and self._place(one) >= TENANT_SOURCES:
            why = f"{TENANT_SOURCES} others of tenant {order.tenant} are followed: a tenant has no more at a time"
            raise Halt(Stalled("TooManySources", why))
        opened = await self._repositories.open(order)
        scope, budget = _scope(order.source), Budget(order.objects, order.percent / 100)
        lists, version = CacheLists(self._cache, scope), partial(self._changes.version, scope)
        syncer = Syncer(self._hand(order), lists, order.owner, self._finalized, budget, version, holding=self._holding)
        read, told = partial(self._read, one, opened), partial(self._tell, one)
        one.feed = SourceFeed(order.url, read, opened.changes, syncer, self._cache, opened.applied, told=told)
        one.declarations = opened.declarations
        await one.feed.sync()
        await one.feed.run()

    def _place(self, one: _One) -> int:
        """Return the number of other followed Sources of its tenant."""
        others = (each for each in self._running.values() if each is not one and each.runs)
        return sum(1 for each in others if each.order.tenant == one.order.tenant)

    def _hand(self, order: SyncOrder) -> Store:
        """The store with the rights of whom it is applied for."""
        if not order.tenant:
            return self._store
        name = f"source:{order.source.namespace}/{order.source.name}"
        return self._store.as_(Caller(order.uid, name, TENANT_ROLE, order.tenant))

    async def _read(self, one: _One, opened: Opened) -> Tree:
        one.reading = one.order
        if not one.order.tenant:
            return await opened.read()
        async with self._of_tenant[one.order.tenant], self._slots:
            return await opened.read()

    def _tell(self, one: _One) -> None:
        """Takes note of what a sync came to, where it is news; what a person has approved of it is pruned by another one."""
        feed = one.feed
        assert feed is not None
        tree, last, revision = feed.tree, feed.last, feed.tree.revision
        if revision is not None and not last.kept and not tree.problems:
            one.settled = revision.commit
        one.released = tuple(map(str, last.released)) or one.released
        waits = (w for w in last.waiting if not w.namespace or w.namespace in feed.syncer.waits_for)
        facts = Followed(
            order=one.reading,
            ended=_now(),
            revision=revision.commit if revision else "",
            settled=one.settled,
            documents=len(tree.documents),
            passed_over=tree.passed_over,
            objects=self._count(one),
            away=tree.away,
            refusal=tree.refusal,
            problems=tuple(map(str, last.problems)),
            kept=_kept(last.kept),
            released=one.released,
            waiting=tuple(f"{wait.ref}: {wait.reason}" for wait in waits),
        )
        if not _is_news(self._facts.get(one.order.source), facts):
            return
        self._facts[one.order.source] = facts
        if facts.order.approved and facts.order.approved == approval_of(facts.kept):
            feed.syncer.approve()
            feed.ask()
        self._ended(one.order.source)

    def _count(self, one: _One) -> int:
        """Return the number of its own objects, counted again only after a change."""
        version = self._changes.version(_scope(one.order.source))
        if version != one.objects[0]:
            one.objects = version, self.owned(one.order.source)
        return one.objects[1]

    async def _prune_all(self, order: SyncOrder) -> tuple[KeptBack, ...]:
        """Deletes what is the Source's, by the platform's own hand; what holds data only once that was approved."""
        lists = CacheLists(self._cache, _scope(order.source))
        syncer = Syncer(self._store, lists, order.owner, self._finalized, Budget(share=1), holding=self._holding)
        kept = _kept((await syncer.sync(Tree())).kept)
        if order.approved and order.approved == approval_of(kept):
            syncer.approve()
            kept = _kept((await syncer.sync(Tree())).kept)
        return kept

    async def _release(self, document: Document) -> None:
        """The object is nobody's from now on. One that has changed meanwhile is released by the next pass."""
        with suppress(Conflict, NotFound):
            await self._store.replace(released(document), document["metadata"]["resourceVersion"])


def _scope(source: Ref) -> str | None:
    """The only namespace that a Source may touch, None for all."""
    return None if source.namespace == SYSTEM_NAMESPACE else source.namespace


def _unfollowed(source: Ref) -> Halt:
    about = f"source {source.namespace}/{source.name} is not being read; its condition Ready shows why"
    return Halt(Transient("SourceNotRead", f"{about}: try again"))


def _is_news(before: Followed | None, after: Followed) -> bool:
    if before is None or before.ended is None or after.ended is None:
        return True
    return replace(before, ended=after.ended) != after or after.ended - before.ended >= TELL_AGAIN


def _kept(kept: Iterable[Kept]) -> tuple[KeptBack, ...]:
    return tuple(KeptBack(str(each.held.ref), each.held.uid, each.reason, each.approvable) for each in kept)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
