"""Write-back: what a caller changes of declared objects becomes a commit first, and is stored once the remote has it.

`DeclaringStore` is the store of callers: it decides which writes concern a source's declarations. Killed after the push, it
leaves the rest to the next sync, which brings the store to the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import structlog

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
    held_of,
    ref_of,
)
from tenantry.model.tree import Tree
from tenantry.model.verdicts import AlreadyExists, Conflict, Forbidden, Halt, NotFound, Transient
from tenantry.ports import Declarations, Store
from tenantry.runtime.cache import Cache
from tenantry.runtime.commit_message import author_of, message_of
from tenantry.runtime.writing import WritingStore

DECLARED = frozenset({"Tenant", "User", "Environment", "Package", "App", "Identity", "IdentityProvider"})
"""The kinds that callers declare. Secrets are never among them: they stay where they are read by nobody."""
ATTEMPTS = 20

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WriteBack:
    """A source that takes writes. turn: while it is held the source is not synced; tree: as it was synced last.

    admit: defaults and validation of a document over the one that it replaces; soon: asks for a sync; wait_s: for the turn.
    """

    source: str
    declarations: Declarations
    turn: Callable[[], asyncio.Lock]
    tree: Callable[[], Tree]
    admit: Callable[[Document, Document | None], Document]
    soon: Callable[[], None]
    wait_s: float = 60.0


class DeclaringStore(WritingStore):
    """The store of callers. Raises besides what a store raises what Declarations raise, and Proposed."""

    def __init__(self, store: Store, cache: Cache, write_back: WriteBack) -> None:
        super().__init__(store, cache)
        self._write_back = write_back

    @classmethod
    def over(cls, store: WritingStore, write_back: WriteBack) -> DeclaringStore:
        """The same store, for callers."""
        return cls(store._store, store._cache, write_back)

    def as_(self, caller: Caller) -> DeclaringStore:
        return DeclaringStore(self._store.as_(caller), self._cache, self._write_back)

    async def create(self, document: Document) -> Document:
        if document["kind"] not in DECLARED:
            return await super().create(document)
        ref = ref_of(document)
        async with self._turn():
            await self._check_free(ref)
            self._write_back.admit(document, None)
            committed = await self._commit(Edit(ref, None, document), document)
            return await super().create(self._declared(document, committed))

    async def replace(self, document: Document, version: str) -> Document:
        ref = ref_of(document)
        if not self._declares(await self.get(ref), document):
            return await super().replace(document, version)
        async with self._turn():
            current = await self.get(ref)
            _check_held(current, Held(ref, document["metadata"].get("uid", ""), version))
            after = self._write_back.admit({**document, "status": current.get("status", {})}, current)
            committed = await self._commit(Edit(ref, current, after), document)
            return await self._bring(ref, document, committed)

    async def delete(self, held: Held) -> Document:
        current = await self.get(held.ref)
        if not self._is_ours(current) or current["metadata"].get("deletionTimestamp"):
            return await super().delete(held)
        async with self._turn():
            current = await self.get(held.ref)
            _check_held(current, held)
            if current["spec"].get("deletionProtection"):
                raise Forbidden(f"{held.ref} is protected: set spec.deletionProtection to false to delete it")
            along = tuple(taken_along(self._write_back.tree(), current))
            async with self._confirmed((held.ref, *along)):
                await self._commit(Edit(held.ref, current, None), current, along)
            return await super().delete(Held(held.ref, current["metadata"]["uid"], ""))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """The source is not synced meanwhile, and soon afterwards: others may have pushed as well, or have been first."""
        turn = self._write_back.turn()
        try:
            await asyncio.wait_for(turn.acquire(), self._write_back.wait_s)
        except TimeoutError:
            raise Halt(Transient("SourceBusy", "the source is still being read or written to: try again")) from None
        try:
            yield
        finally:
            turn.release()
            self._write_back.soon()

    def _is_ours(self, document: Document) -> bool:
        labels = document["metadata"].get("labels") or {}
        return document["kind"] in DECLARED and labels.get(SOURCE) == self._write_back.source

    def _declares(self, current: Document, document: Document) -> bool:
        """Does the write change what the source declares? That others fill in a Package's digest does not."""
        before, after = current.get("spec") or {}, document.get("spec") or {}
        filled = current["kind"] == "Package" and not before.get("sha256") and after.get("sha256")
        return self._is_ours(current) and before != after and not filled

    async def _check_free(self, ref: Ref) -> None:
        """What the store would refuse is refused before it is committed."""
        try:
            await self.get(ref)
        except NotFound:
            return
        raise AlreadyExists(f"{ref} already exists")

    async def _commit(self, edit: Edit, signed: Document, along: tuple[Ref, ...] = ()) -> Committed:
        """Raises Proposed where the commit waits for review."""
        requested_by = (signed["metadata"].get("annotations") or {}).get(REQUESTED_BY, "")
        request = uuid4().hex
        change = Redeclaration(edit, author_of(requested_by), message_of(edit, along, requested_by, request), along)
        committed = await self._write_back.declarations.write(change)
        log.info("declared", object=str(edit.ref), commit=committed.commit, branch=committed.branch, request=request)
        if committed.branch:
            raise Proposed(committed)
        return committed

    def _declared(self, document: Document, committed: Committed) -> dict[str, Any]:
        """The document as a sync of the commit would leave it, but for on whose behalf it is written."""
        metadata = document["metadata"]
        told = {SOURCE_FILE: committed.places[ref_of(document)], SOURCE_COMMIT: committed.commit, SOURCE_AUTHOR: committed.author}
        labels = {**(metadata.get("labels") or {}), SOURCE: self._write_back.source}
        annotations = {**(metadata.get("annotations") or {}), **told}
        return {**document, "metadata": {**metadata, "labels": labels, "annotations": annotations}}

    async def _bring(self, ref: Ref, document: Document, committed: Committed) -> Document:
        """Stores what is declared now, over whatever the runtime has written since."""
        for _ in range(ATTEMPTS):
            current = await self.get(ref)
            annotations = {**(current["metadata"].get("annotations") or {}), **(document["metadata"].get("annotations") or {})}
            metadata = {**current["metadata"], "annotations": annotations}
            wanted = self._declared({**document, "metadata": metadata}, committed)
            try:
                return await super().replace(wanted, held_of(current).version)
            except Conflict:
                continue
        raise Conflict(
            f"{ref} is being changed by others all the time; the commit {committed.commit[:12]} is applied by the next sync"
        )

    @asynccontextmanager
    async def _confirmed(self, refs: Iterable[Ref]) -> AsyncIterator[None]:
        """Marks objects, so that a sync prunes them once they have left the source, also one after a crash; not if this fails."""
        marked = [ref for ref in refs if await self._mark(ref, {DELETION_CONFIRMED: "true"})]
        try:
            yield
        except BaseException:
            for ref in marked:
                await self._mark(ref, {})
            raise

    async def _mark(self, ref: Ref, mark: Mapping[str, str]) -> bool:
        """False for what is not there, or not the source's."""
        for _ in range(ATTEMPTS):
            try:
                current = await self.get(ref)
                labels, annotations = (current["metadata"].get(key) or {} for key in ("labels", "annotations"))
                if labels.get(SOURCE) != self._write_back.source:
                    return False
                kept = {name: value for name, value in annotations.items() if name != DELETION_CONFIRMED}
                metadata = {**current["metadata"], "annotations": {**kept, **mark}}
                await super().replace({**current, "metadata": metadata}, held_of(current).version)
            except NotFound:
                return False
            except Conflict:
                continue
            return True
        raise Conflict(f"{ref} is being changed by others all the time")


def taken_along(tree: Tree, document: Document) -> Iterable[Ref]:
    """What a source declares inside of a Tenant or an Environment, which cannot be without it."""
    ref = ref_of(document)
    bound = (document.get("status") or {}).get("namespace") or {}
    inside = bound.get("name") if isinstance(bound, Mapping) else ""
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
