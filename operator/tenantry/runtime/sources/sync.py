"""Applies a source: what its tree declares is created and changed, what left it is pruned, within a budget.

`decide_sync` is pure; `Syncer` carries its plan out over a Store. An object belongs to the source whose name its label
`tenantry.dev/source` holds; the annotations `tenantry.dev/source-file`, `-commit` and `-author` say where it stood, and who put
it there, when it was last written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import NamedTuple, Protocol, TypeVar

import structlog

from tenantry.kinds.registry import DECLARED
from tenantry.model.resource import FINALIZER, REQUESTED_BY, SOURCE, SOURCE_FILE, Document, Held, Ref, held_of, ref_of
from tenantry.model.tree import Declared, Origin, SourceProblem, Tree
from tenantry.model.verdicts import AlreadyExists, Conflict, Forbidden, Halt, Invalid, NotFound, Problem, Stalled, described
from tenantry.ports import Store
from tenantry.runtime.operations.traces import in_trace
from tenantry.runtime.sources.declaring import Write, created, replaced, requester
from tenantry.runtime.sources.holding import Holding
from tenantry.runtime.sources.leaving import doubt_of, doubts_of, engines_at_stake, gone_from, owned_in, rank
from tenantry.runtime.sources.ownership import Namespaces, namespaces_of
from tenantry.runtime.sources.pruning import Budget, EngineData, Kept, decide_pruning, protected_in, still_needed, still_used
from tenantry.runtime.sources.releasing import Handing, decide_handing, stays
from tenantry.tracing.work import beginning

T = TypeVar("T")
AT_ONCE = 64

log = structlog.get_logger(__name__)


class Lists(Protocol):
    """The listing half of Feed."""

    async def list(self, kind: str) -> tuple[Iterable[Document], str]: ...


class Wait(NamedTuple):
    """A declared object that cannot be written yet. namespace: the one that is missing, `""` for another reason."""

    ref: Ref
    reason: str
    namespace: str = ""


@dataclass(frozen=True)
class SyncPlan:
    """The writes of a sync. `waiting` maps objects that cannot be created yet to their writes, if only the namespace is
    missing."""

    creates: tuple[Write, ...] = ()
    replaces: tuple[Write, ...] = ()
    deletes: tuple[Held, ...] = ()
    kept: tuple[Kept, ...] = ()
    waiting: tuple[tuple[Wait, Write | None], ...] = ()
    problems: tuple[SourceProblem, ...] = ()
    handing: Handing = field(default_factory=Handing)

    @property
    def writes(self) -> bool:
        """Return True if there is anything to write."""
        return bool(self.creates or self.replaces or self.deletes or self.handing.releases or self.handing.claims)


@dataclass(frozen=True)
class Synced:
    """The result of a sync. released: objects that left the source and have none now; kept: objects that wait for approval;
    waiting: objects that need another sync (or `resume`) before they are applied."""

    created: tuple[Ref, ...] = ()
    changed: tuple[Ref, ...] = ()
    pruned: tuple[Ref, ...] = ()
    released: tuple[Ref, ...] = ()
    kept: tuple[Kept, ...] = ()
    waiting: tuple[Wait, ...] = ()
    problems: tuple[SourceProblem, ...] = ()


def decide_sync(
    tree: Tree,
    existing: Mapping[Ref, Document],
    source: str,
    approvals: Container[str] = frozenset(),
    budget: Budget | None = None,
    data: Mapping[Ref, EngineData] | None = None,
) -> SyncPlan:
    """The plan of a sync of the tree. existing: all objects of the kinds of DECLARED; approvals: uids that may be pruned;
    data: what the engines hold of which `engines_at_stake` named the environments.

    At a first start (nothing there is the source's) with a broken file, and where nothing could be read, nothing is applied.
    """
    owned = owned_in(existing, source)
    if tree.broken and not (owned and tree.documents):
        return SyncPlan(problems=tree.problems)
    namespaces = namespaces_of(tree, existing)
    decided = [
        _decide(each, existing.get(each.ref), source, namespaces, tree.origin(each.place)) for each in _in_order(tree.documents)
    ]
    handing, deletes, kept = _decide_leaving(tree, existing, source, approvals, budget or Budget(), data)
    needed = still_needed(deletes, existing)
    used, in_use = still_used(deletes, existing)
    deletes = tuple(held for held in deletes if held not in {each.held for each in in_use})
    later = tuple((Wait(held.ref, _later(held.ref)), None) for held in deletes if held.ref in needed | used)
    return SyncPlan(
        creates=tuple(each for each in decided if isinstance(each, Write) and not each.version),
        replaces=tuple(each for each in decided if isinstance(each, Write) and each.version),
        deletes=tuple(held for held in deletes if held.ref not in needed | used),
        kept=(*kept, *in_use),
        waiting=(*(each for each in decided if isinstance(each, tuple)), *later),
        problems=(*tree.problems, *tree.held, *(each for each in decided if isinstance(each, SourceProblem))),
        handing=handing,
    )


def _decide_leaving(
    tree: Tree,
    existing: Mapping[Ref, Document],
    source: str,
    approvals: Container[str],
    budget: Budget,
    data: Mapping[Ref, EngineData] | None,
) -> tuple[Handing, tuple[Held, ...], tuple[Kept, ...]]:
    """Return the released, the deleted and the kept objects that the tree no longer declares."""
    owned, doubt = owned_in(existing, source), doubt_of(tree)
    gone, protected = gone_from(tree, owned), protected_in(existing, (each.document for each in tree.documents))
    declared = frozenset(each.ref for each in tree.documents)
    handing = decide_handing(gone, declared, existing, source, tree.broken or bool(doubt))
    pruned = [each for each in gone if not stays(each)]
    return handing, *decide_pruning(
        pruned, existing, len(owned), tree.broken, approvals, budget, doubts_of(tree, gone), data, protected
    )


def _later(ref: Ref) -> str:
    return "goes when no environment uses it" if ref.kind == "Region" else "goes when its engine is left"


_Decided = Write | tuple[Wait, Write | None] | SourceProblem | None


def _decide(declared: Declared, current: Document | None, source: str, namespaces: Namespaces, origin: Origin | None) -> _Decided:
    """Return the write for one declared document; None when it is as declared."""
    try:
        return _wanted(declared, current, source, namespaces, origin)
    except Exception as bug:
        log.exception("comparing what a source declares failed", object=str(declared.ref), place=str(declared.place))
        return _problem(declared, "", described(bug))


def _wanted(declared: Declared, current: Document | None, source: str, namespaces: Namespaces, origin: Origin | None) -> _Decided:
    ref = declared.ref
    if ref.kind not in DECLARED:
        return _problem(declared, "kind", f"a source cannot declare objects of kind {ref.kind}")
    if current is None:
        write = Write(created(declared, source, origin), declared)
        if not ref.namespace or ref.namespace in namespaces.there:
            return write
        return Wait(ref, namespaces.why_missing(ref.namespace), ref.namespace), write
    holder = _label(current, SOURCE)
    if holder not in ("", source):
        file = current["metadata"].get("annotations", {}).get(SOURCE_FILE, "")
        return _problem(declared, "metadata.name", f"{ref} belongs to the source {holder} ({file}), which keeps it")
    if current["metadata"].get("deletionTimestamp"):
        return Wait(ref, "an object of that name is still being deleted"), None
    return replaced(declared, current, source, origin)


def _label(document: Document, name: str) -> str:
    return str(document["metadata"].get("labels", {}).get(name, ""))


def _problem(declared: Declared, field: str, reason: str) -> SourceProblem:
    return SourceProblem(declared.place.file, declared.place.line, Problem(field, reason))


def _in_order(documents: Iterable[Declared]) -> list[Declared]:
    return sorted(documents, key=lambda each: rank(each.ref.kind))


class _AtRest(NamedTuple):
    """A sync that found nothing to write. version: of the store, before it looked."""

    tree: Tree
    version: str
    found: Synced


class Syncer:
    """Carries out the syncs of one source. finalized: the kinds whose objects are born with our finalizer.

    holding: what engines hold, by runtime.holding. version: another one whenever anything was written. The same tree over the
    same version needs no second look, unless something is kept: what an engine holds changes without a write.
    """

    def __init__(
        self,
        store: Store,
        lists: Lists,
        source: str,
        finalized: Container[str],
        budget: Budget | None = None,
        version: Callable[[], str] | None = None,
        *,
        holding: Holding,
    ) -> None:
        self._store = store
        self._holding = holding
        self._lists = lists
        self._version = version
        self._at_rest: _AtRest | None = None
        self.source = source
        self._finalized = finalized
        self._budget = budget or Budget()
        self._tree = Tree()
        self._approvals: set[str] = set()
        self._kept: tuple[Kept, ...] = ()
        self._waiting: dict[str, list[Write]] = {}
        self._lock = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def sync(self, tree: Tree) -> Synced:
        """Brings the store to the tree, as far as it can be now. Raises what listing raises; refusals are in the result."""
        async with self._lock:
            with beginning("sync", source=self.source):
                return await self._sync(tree)

    async def _sync(self, tree: Tree) -> Synced:
        version, self._tree = self._version() if self._version else "", tree
        if self._at_rest is not None and (tree, version) == self._at_rest[:2]:
            return self._at_rest.found
        existing = await self._existing()
        data = await self._holding(engines_at_stake(tree, existing, self.source))
        # In a thread: of thousands of documents it takes long, and everybody's requests wait for the event loop.
        approvals = frozenset(self._approvals)
        plan = await asyncio.to_thread(decide_sync, tree, existing, self.source, approvals, self._budget, data)
        self._kept, self._waiting = plan.kept, {}
        done = await self._write((*plan.creates, *plan.replaces))
        handed = _joined(await asyncio.gather(*(self._release_one(each) for each in plan.handing.releases)))
        await asyncio.gather(*(self._mark_one(each) for each in plan.handing.claims))
        deleted = await self._by_kind(self._delete_one, plan.deletes, lambda held: held.ref.kind)
        self._await_namespaces(write for _, write in plan.waiting)
        waits = tuple(wait for wait, _ in plan.waiting)
        found = Synced(kept=plan.kept, waiting=waits, problems=plan.problems)
        self._at_rest = _AtRest(tree, version, found) if version and not plan.writes and not plan.kept else None
        return _joined((found, done, handed, deleted))

    async def resume(self, *namespaces: str) -> Synced:
        """Creates what waited for namespaces that are there now; costs nothing when nothing did."""
        async with self._lock:
            return await self._write([write for name in namespaces for write in self._waiting.pop(name, ())])

    @property
    def waits_for(self) -> frozenset[str]:
        """The namespaces that `resume` waits for."""
        return frozenset(self._waiting)

    def approve(self) -> tuple[Kept, ...]:
        """Let the next sync prune the objects that are kept now, and return them. Objects that are kept later need their own
        approval."""
        self._at_rest = None
        approved = tuple(kept for kept in self._kept if kept.approvable)
        self._approvals |= {kept.held.uid for kept in approved}
        return approved

    async def _existing(self) -> dict[Ref, Document]:
        lists = await asyncio.gather(*(self._lists.list(kind) for kind in DECLARED))
        return {ref_of(document): document for documents, _ in lists for document in documents}

    def _await_namespaces(self, writes: Iterable[Write | None]) -> None:
        for write in writes:
            if write is not None:
                later = replace(write, document=in_trace(write.document, write.declared.document))
                self._waiting.setdefault(write.declared.ref.namespace, []).append(later)

    async def _write(self, writes: Iterable[Write]) -> Synced:
        """Writes in order of dependency, those of one kind at once."""
        ranked = sorted(writes, key=lambda write: rank(write.declared.ref.kind))
        return await self._by_kind(self._write_one, ranked, lambda write: write.declared.ref.kind)

    async def _write_one(self, write: Write) -> Synced:
        ref = write.declared.ref
        document = in_trace(write.document, write.declared.document)
        try:
            if write.version:
                await self._store.replace(document, write.version)
                return Synced(changed=(ref,))
            await self._store.create(self._born(document))
            return Synced(created=(ref,))
        except Invalid as error:
            return Synced(problems=tuple(self._refused(write.declared, problem) for problem in error.problems))
        except (NotFound, AlreadyExists, Conflict, Forbidden) as error:
            return Synced(waiting=(Wait(ref, error.verdict.message),))
        except Halt as error:
            if isinstance(error.verdict, Stalled):
                return Synced(problems=(_problem(write.declared, "", error.verdict.message),))
            return Synced(waiting=(Wait(ref, error.verdict.message),))
        except OSError:
            raise  # of the store: the whole sync is tried again
        except Exception as bug:
            log.exception("writing what a source declares failed", object=str(ref), place=str(write.declared.place))
            return Synced(problems=(_problem(write.declared, "", described(bug)),))

    def _born(self, document: Document) -> Document:
        if document["kind"] not in self._finalized:
            return document
        return {**document, "metadata": {**document["metadata"], "finalizers": [FINALIZER]}}

    def _refused(self, declared: Declared, problem: Problem) -> SourceProblem:
        return SourceProblem(declared.place.file, self._tree.locate(declared.place, problem.field), problem)

    async def _release_one(self, document: Document) -> Synced:
        ref = ref_of(document)
        return (
            Synced(released=(ref,))
            if await self._mark_one(document)
            else Synced(waiting=(Wait(ref, "changed since it was read"),))
        )

    async def _mark_one(self, document: Document) -> bool:
        """Return True if the mark on an object is stored. The next sync handles one that has changed in between."""
        async with self._slots:
            try:
                await self._store.replace(document, document["metadata"]["resourceVersion"])
            except Halt:
                return False
        return True

    async def _delete_one(self, held: Held) -> Synced:
        try:
            await self._store.delete(await self._marked(held))
        except NotFound:
            return Synced()
        except Forbidden as error:
            if held.ref.kind == "Region":  # an environment came, or the count that is refused by is about to change
                return Synced(waiting=(Wait(held.ref, error.verdict.message),))
            return Synced(kept=(Kept(held, error.verdict.message, approvable=False),))
        except Halt as error:
            return Synced(waiting=(Wait(held.ref, error.verdict.message),))
        except OSError:
            raise
        except Exception as bug:
            log.exception("pruning failed", object=str(held.ref))
            return Synced(kept=(Kept(held, described(bug), approvable=False),))
        return Synced(pruned=(held.ref,))

    async def _marked(self, held: Held) -> Held:
        """Return the object with the author of its removal, if a repository names one: its deletion's Operation shows it."""
        if self._tree.revision is None:
            return held
        document = await self._store.get(held.ref)
        metadata = document["metadata"]
        annotations = metadata.get("annotations", {})
        origin = self._tree.removal(annotations.get(SOURCE_FILE, "").rpartition(":")[0], held.ref)
        by = requester(origin) if origin else annotations.get(REQUESTED_BY)
        asked = {**annotations, REQUESTED_BY: by} if by else annotations
        marked = in_trace({**document, "metadata": {**metadata, "annotations": asked}})
        if held_of(document) != held or marked["metadata"]["annotations"] == annotations:
            return held  # the deletion itself is refused if the object has changed since
        return held_of(await self._store.replace(marked, held.version))

    async def _by_kind(self, one: Callable[[T], Awaitable[Synced]], items: Iterable[T], kind: Callable[[T], str]) -> Synced:
        """One kind after the other, some of a kind at once."""
        done: list[Synced] = []
        for _, group in groupby(items, key=kind):
            done += await _some_at_once(one, list(group))
        return _joined(done)


async def _some_at_once(one: Callable[[T], Awaitable[Synced]], items: Sequence[T]) -> list[Synced]:
    """Return the results in order. The first error is raised, and what has begun goes on."""
    done = [Synced()] * len(items)
    left = iter(enumerate(items))

    async def work() -> None:
        for place, item in left:
            done[place] = await one(item)

    await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(items)))))
    return done


def _joined(parts: Iterable[Synced]) -> Synced:
    parts = tuple(parts)
    return Synced(
        created=tuple(chain.from_iterable(part.created for part in parts)),
        changed=tuple(chain.from_iterable(part.changed for part in parts)),
        pruned=tuple(chain.from_iterable(part.pruned for part in parts)),
        released=tuple(chain.from_iterable(part.released for part in parts)),
        kept=tuple(chain.from_iterable(part.kept for part in parts)),
        waiting=tuple(chain.from_iterable(part.waiting for part in parts)),
        problems=tuple(chain.from_iterable(part.problems for part in parts)),
    )
