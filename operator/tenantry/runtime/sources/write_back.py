"""Write-back: what a caller changes of declared objects becomes a commit first, and is stored once the remote has it.

`DeclaringStore` is the store of callers: it decides which writes concern a source's declarations. Killed after the push, it
leaves the rest to the next sync, which brings the store to the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import structlog

from tenantry.kinds.registry import KINDS
from tenantry.model.documents import bound_namespace
from tenantry.model.facts import Caller
from tenantry.model.redeclaring import Committed, Edit, Proposed, Redeclaration
from tenantry.model.resource import (
    DELETION_CONFIRMED,
    REQUESTED_BY,
    SOURCE,
    SOURCE_AUTHOR,
    SOURCE_COMMIT,
    SOURCE_FILE,
    Document,
    Held,
    Ref,
    ref_of,
    source_of,
)
from tenantry.model.tree import Tree
from tenantry.model.verdicts import AlreadyExists, Conflict, Forbidden, Halt, NotFound, Transient
from tenantry.ports import Declarations, Store
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.revising import revise
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.commit_message import author_of, message_of

WRITTEN_BACK = frozenset(name for name, kind in KINDS.items() if kind.type.WRITTEN_BACK)
"""The kinds that callers declare. Secrets are never among them: they stay where they are read by nobody."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WriteBack:
    """A source that takes writes. turn: exclusive use of its declarations within this process, until the end of the block;
    others are then notified. It raises a Halt if nothing can be written now.

    admit: defaults and validation of a document over the one that it replaces; place: where it commits, for people.
    """

    source: str
    turn: Callable[[], AbstractAsyncContextManager[Declarations]]
    admit: Callable[[Document, Document | None], Document]
    place: str = ""


class Writers(Protocol):
    """The sources that take writes, as they are now."""

    def of(self, source: str, namespace: str) -> WriteBack | None:
        """That of the label `tenantry.dev/source` of an object there; None where it takes none, or has nothing to say there."""

    def home(self, document: Document) -> WriteBack | None:
        """Return the source that declares a new object; None if no source takes it. Raises Invalid if several might."""


@asynccontextmanager
async def holding(lock: asyncio.Lock | asyncio.Semaphore, within_s: float) -> AsyncIterator[None]:
    """Raises a Transient Halt when others do not let it go in time."""
    try:
        async with asyncio.timeout(within_s):
            await lock.acquire()
    except TimeoutError:
        raise Halt(Transient("SourceBusy", "the source is still being read or written: try again")) from None
    try:
        yield
    finally:
        lock.release()


class DeclaringStore(WritingStore):
    """The store of callers. Raises besides what a store raises what Declarations raise, and Proposed."""

    def __init__(self, store: Store, cache: Cache, writers: Writers) -> None:
        super().__init__(store, cache)
        self._writers = writers

    @classmethod
    def over(cls, store: WritingStore, writers: Writers) -> DeclaringStore:
        """The same store, for callers."""
        return cls(store._store, store._cache, writers)

    def as_(self, caller: Caller) -> DeclaringStore:
        return DeclaringStore(self._store.as_(caller), self._cache, self._writers)

    async def create(self, document: Document) -> Document:
        home = self._writers.home(document) if document["kind"] in WRITTEN_BACK else None
        if home is None:
            return await super().create(document)
        ref = ref_of(document)
        async with home.turn() as declarations:
            await self._check_free(ref)
            home.admit(document, None)
            if rehearsed := self.dry_run():
                await rehearsed.create(document)
            committed = await _commit(declarations, Edit(ref, None, document), document)
            try:
                return await super().create(_declared(document, committed, home.source))
            except AlreadyExists:  # another process has synced the commit first, or somebody made the object by hand
                if source_of(await self.get(ref)) != home.source:
                    raise
                return await self._bring(ref, document, committed, home.source)

    async def replace(self, document: Document, version: str) -> Document:
        ref, home = ref_of(document), self._home_of(document)
        if home is None or not _changes(await self.get(ref), document):
            return await super().replace(document, version)
        async with home.turn() as declarations:
            current = await self.get(ref)
            _check_held(current, Held(ref, document["metadata"].get("uid", ""), version))
            after = home.admit({**document, "status": current.get("status", {})}, current)
            if rehearsed := self.dry_run():
                await rehearsed.replace(document, version)
            committed = await _commit(declarations, Edit(ref, current, after), document)
            return await self._bring(ref, document, committed, home.source)

    async def delete(self, held: Held) -> Document:
        current = self._cache.document(held.ref) or await self.get(held.ref)  # who deletes it has just read it
        home = self._home_of(current)
        if home is None or current["metadata"].get("deletionTimestamp"):
            return await super().delete(held)
        async with home.turn() as declarations:
            current = await self.get(held.ref)
            _check_held(current, held)
            if current["spec"].get("deletionProtection"):
                raise Forbidden(f"{held.ref} is protected: set spec.deletionProtection to false to delete it")
            if rehearsed := self.dry_run():
                await rehearsed.delete(held)
            tree = await declarations.tree()
            along = tuple(taken_along(tree, current))
            # Whoever may change the object may label it: what is not declared there makes no commit.
            if along or any(each.ref == held.ref for each in tree.documents):
                async with self._confirmed((held.ref, *along), home.source):
                    await _commit(declarations, Edit(held.ref, current, None), current, along)
            try:
                return await super().delete(Held(held.ref, current["metadata"]["uid"], ""))
            except NotFound:  # another process has pruned it first
                return current

    @property
    def _plain(self) -> WritingStore:
        """It commits nothing."""
        return WritingStore(self._store, self._cache)

    def _home_of(self, document: Document) -> WriteBack | None:
        source = source_of(document)
        namespace = document["metadata"].get("namespace", "")
        return self._writers.of(source, namespace) if source and document["kind"] in WRITTEN_BACK else None

    async def _check_free(self, ref: Ref) -> None:
        """Refuse before the commit a write that the store would refuse."""
        try:
            await self.get(ref)
        except NotFound:
            return
        raise AlreadyExists(f"{ref} already exists")

    async def _bring(self, ref: Ref, document: Document, committed: Committed, source: str) -> Document:
        """Stores what is declared now, over whatever the runtime has written since."""

        def declared(current: Document) -> Document:
            annotations = {**(current["metadata"].get("annotations") or {}), **(document["metadata"].get("annotations") or {})}
            metadata = {**current["metadata"], "annotations": annotations}
            return _declared({**document, "metadata": metadata}, committed, source)

        try:
            return (await revise(self._plain, ref, declared))[1]
        except Conflict as conflict:
            told = f"{conflict.verdict.message}; the commit {committed.commit[:12]} is applied by the next sync"
            raise Conflict(told) from conflict

    @asynccontextmanager
    async def _confirmed(self, refs: Iterable[Ref], source: str) -> AsyncIterator[None]:
        """Marks objects, so that a sync prunes them once they have left the source, also one after a crash; not if this fails."""
        marked = [ref for ref in refs if await self._mark(ref, {DELETION_CONFIRMED: "true"}, source)]
        try:
            yield
        except BaseException:
            for ref in marked:
                await self._mark(ref, {}, source)
            raise

    async def _mark(self, ref: Ref, mark: Mapping[str, str], source: str) -> bool:
        """False for what is not there, or not the source's."""

        def marked(current: Document) -> Document:
            if source_of(current) != source:
                return current
            annotations = current["metadata"].get("annotations") or {}
            kept = {name: value for name, value in annotations.items() if name != DELETION_CONFIRMED}
            return {**current, "metadata": {**current["metadata"], "annotations": {**kept, **mark}}}

        try:
            _, after = await revise(self._plain, ref, marked)
        except NotFound:
            return False
        return source_of(after) == source


async def _commit(declarations: Declarations, edit: Edit, signed: Document, along: tuple[Ref, ...] = ()) -> Committed:
    """Raises Proposed where the commit waits for review."""
    requested_by = (signed["metadata"].get("annotations") or {}).get(REQUESTED_BY, "")
    request = uuid4().hex
    change = Redeclaration(edit, author_of(requested_by), message_of(edit, along, requested_by, request), along)
    committed = await declarations.write(change)
    log.info("declared", object=str(edit.ref), commit=committed.commit, branch=committed.branch, request=request)
    if committed.branch:
        raise Proposed(committed)
    return committed


def _declared(document: Document, committed: Committed, source: str) -> dict[str, Any]:
    """The document as a sync of the commit would leave it, but for on whose behalf it is written."""
    metadata = document["metadata"]
    told = {SOURCE_FILE: committed.places[ref_of(document)], SOURCE_COMMIT: committed.commit, SOURCE_AUTHOR: committed.author}
    labels = {**(metadata.get("labels") or {}), SOURCE: source}
    annotations = {**(metadata.get("annotations") or {}), **told}
    return {**document, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def _changes(current: Document, document: Document) -> bool:
    """Return True if the write changes the declaration. A digest that others fill into a Package does not count."""
    before, after = current.get("spec") or {}, document.get("spec") or {}
    filled = current["kind"] == "Package" and not before.get("sha256") and after.get("sha256")
    return before != after and not filled


def taken_along(tree: Tree, document: Document) -> Iterable[Ref]:
    """Return the declarations inside of a Tenant or an Environment, which cannot exist without it."""
    ref = ref_of(document)
    inside = bound_namespace(document) if ref.kind == "Tenant" else ""
    for each in tree.documents:
        if each.ref == ref:
            continue
        if ref.kind == "Tenant":
            within = bool(inside) and inside in (each.ref.namespace, _namespace_of(each.ref))
        else:
            own = each.ref.namespace == ref.namespace and ref.kind == "Environment"
            within = own and (each.document.get("spec") or {}).get("environment") == ref.name
        if within:
            yield each.ref


def _namespace_of(ref: Ref) -> str:
    return ref.name if ref.kind == "Namespace" else ""


def _check_held(current: Document, held: Held) -> None:
    metadata = current["metadata"]
    if (held.uid and metadata["uid"] != held.uid) or (held.version and metadata["resourceVersion"] != held.version):
        raise Conflict(f"{held.ref} has changed since it was read")
