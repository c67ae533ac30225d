"""Declarations that a person sends as YAML: planned, and applied as `tenantry apply` does, with the person's rights."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from starlette.requests import Request

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.api.reading.waiting import until
from tenantry.api.writing.turns import Turns
from tenantry.api.writing.writes import WriteContext, signature
from tenantry.kinds.registry import DECLARED, OF_TENANTS
from tenantry.kinds.source.spec import REVISION_NAME, Source
from tenantry.model.declared import PARTS, PEOPLE_WRITE
from tenantry.model.redeclaring import Proposed
from tenantry.model.resource import GROUP, Document, Ref
from tenantry.model.tree import Declared, Tree
from tenantry.model.verdicts import AlreadyExists, Conflict, Forbidden, Halt, NotFound
from tenantry.ports import Store
from tenantry.rest.bodies import invalid
from tenantry.rest.leaving import while_connected
from tenantry.rest.plan_bundle import write_bundle
from tenantry.runtime.planning.plan import Remarks, Settle, WhatIf
from tenantry.runtime.planning.planned import Planned
from tenantry.runtime.reconcile.applied import born, but_version, check_current, over
from tenantry.runtime.reconcile.revising import ATTEMPTS
from tenantry.runtime.sources.leaving import rank
from tenantry.runtime.sources.sync import Wait

NAME = "YAML"
"""The name of the text in messages, which say `YAML:LINE`."""


class AppliedText(NamedTuple):
    """The result of one document. outcome: `created`, `changed`, `unchanged`, `proposed`, or `refused` with the reason."""

    ref: Ref
    outcome: str
    message: str = ""


class TypedDeclarations:
    """Plans and applies the documents of a text."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    async def read(self, text: str) -> Tree:
        """The documents of a text, admitted. Its faults are problems of the tree."""
        return await asyncio.to_thread(self._context.facade.read_text, NAME, text.encode())

    async def plan(self, request: Request, principal: SignedInUser, tree: Tree) -> Planned:
        """The effects of applying the documents. Refusals are problems of the plan. Nothing is done."""
        self._check(principal)
        return await self._context.plan_edit(request, principal, partial(self._edit, principal=principal, tree=tree))

    async def plan_as(self, request: Request, principal: SignedInUser, tree: Tree, source: str) -> Planned:
        """The effects if the documents were all that a source declares: the plan of POST /plans. Nothing is done."""
        self._check(principal)
        facade, namespace = self._context.facade, "" if principal.superuser else principal.namespace
        with TemporaryDirectory(prefix="plan-", dir=facade.uploads.folder) as folder:
            file = Path(folder) / "source.zip"
            await asyncio.to_thread(write_bundle, file, tree, source, {})
            work = partial(facade.plan_bundle, file, principal.caller, namespace)
            return await self._context.plan(request, principal, work)

    async def plan_branch(self, request: Request, principal: SignedInUser, source: Source, branch: str) -> tuple[Tree, Planned]:
        """The branch of a Source that the caller sees, and the plan of the Source with that branch. Nothing is done.

        Raises Invalid for what cannot be planned, Halt for a repository that cannot be read.
        """
        self._check(principal)
        if not re.fullmatch(REVISION_NAME, branch):
            raise invalid("branch", "must be the name of a branch, such as main or release/1.4")
        facade, namespace = self._context.facade, "" if principal.superuser else principal.namespace
        with TemporaryDirectory(prefix="plan-", dir=facade.uploads.folder) as folder:
            file = Path(folder) / "source.zip"
            tree = await while_connected(request, facade.branch(source, branch, file))
            if problems := [*map(str, (*tree.problems, *tree.held)), *([tree.away] if tree.away else [])]:
                raise invalid("branch", "; ".join(problems))
            work = partial(facade.plan_bundle, file, principal.caller, namespace)
            return tree, await self._context.plan(request, principal, work)

    async def apply(self, request: Request, principal: SignedInUser, tree: Tree, digest: str) -> Sequence[AppliedText]:
        """Carry out the plan with that digest. Raises Conflict if it does not hold, Invalid if it has problems."""
        self._check(principal)
        edit = partial(self._edit, principal=principal, tree=tree)
        planned = await self._context.plan_edit(request, principal, edit, digest or "none")
        if planned.problems:
            raise invalid("", "; ".join(planned.problems))
        return [await self._applied(principal, each) for each in in_order(tree)]

    def _check(self, principal: SignedInUser) -> None:
        principal.require_writer()
        if not principal.superuser and not principal.namespace:
            raise Forbidden("your tenant has no namespace yet")

    async def _edit(self, what_if: WhatIf, settle: Settle, *, principal: SignedInUser, tree: Tree) -> Remarks:
        packages = what_if.ports.hands(Ref("", "", "")).packages
        writes = WriteContext(what_if.store, what_if.cache, packages, self._context.writes.sources, Turns(what_if.cache, 0))
        problems: list[str] = []
        waiting: list[Wait] = []
        for each in in_order(tree):
            try:
                check_declarable(principal, each)
                await self._rehearse(principal, each.document)
                await _put_when_settled(writes, principal, each.document, settle)
            except NotFound as missing:
                waiting.append(Wait(each.ref, missing.told, each.ref.namespace))
            except Halt as halt:
                problems.append(_told(each, halt))
        return Remarks(tuple(problems), (), tuple(waiting))

    async def _rehearse(self, principal: SignedInUser, document: Document) -> None:
        """Ask a server that judges rights by itself whether it would take the write. Raises Forbidden, Invalid."""
        rehearsed = store_of(self._context.writes, principal, document["kind"]).dry_run()
        if rehearsed is None:
            return
        try:
            await _put(rehearsed, self._context.writes, principal, document)
        except NotFound:
            return  # the namespace comes with the plan

    async def _applied(self, principal: SignedInUser, each: Declared) -> AppliedText:
        writes, document = self._context.writes, each.document
        if each.ref.namespace:
            await self._namespace(each.ref.namespace)
        try:
            store = store_of(writes, principal, each.ref.kind)
            return AppliedText(each.ref, await _put(store, writes, principal, document))
        except Proposed as proposed:
            return AppliedText(each.ref, "proposed", str(proposed))
        except Halt as halt:
            return AppliedText(each.ref, "refused", _told(each, halt))

    async def _namespace(self, name: str) -> None:
        """Wait for the namespace of a Tenant that was applied just before."""
        cache, ref = self._context.cache, Ref("Namespace", "", name)
        seconds = self._context.facade.engine_wait.total_seconds()
        await until(cache, lambda: cache.entry(ref), lambda seen: seen.ref == ref, seconds)


def in_order(tree: Tree) -> list[Declared]:
    """The documents in order of dependency."""
    return sorted(tree.documents, key=lambda each: rank(each.ref.kind))


def check_declarable(principal: SignedInUser, each: Declared) -> None:
    """Raises Invalid or Forbidden for what a person may not declare by a text."""
    kind, metadata = each.ref.kind, each.document["metadata"]
    if kind not in DECLARED:
        raise invalid("kind", f"objects of kind {kind} are not declared")
    if not principal.superuser and kind not in OF_TENANTS:
        raise Forbidden(f"only a SUPERUSER may declare objects of kind {kind}")
    if not principal.superuser and each.ref.namespace != principal.namespace:
        raise invalid("metadata.namespace", f"must be {principal.namespace}: an ADMIN of a tenant declares only for that tenant")
    for part in PARTS:
        for name in metadata.get(part) or {}:
            if name.startswith(f"{GROUP}/") and name not in PEOPLE_WRITE:
                raise invalid(f"metadata.{part}", f"{name} is written by the platform: remove it")


def store_of(writes: WriteContext, principal: SignedInUser, kind: str) -> Store:
    """The store with the rights that a write of that kind has."""
    return writes.store.as_(principal.caller) if kind in OF_TENANTS else writes.store


async def _put_when_settled(writes: WriteContext, principal: SignedInUser, document: Document, settle: Settle) -> None:
    """Write a document, with the namespace that a Tenant of the same plan makes. Raises NotFound without it."""
    store = store_of(writes, principal, document["kind"])
    try:
        await _put(store, writes, principal, document)
    except NotFound:
        await settle()
        await _put(store, writes, principal, document)


async def _put(store: Store, writes: WriteContext, principal: SignedInUser, document: Document) -> str:
    """Create the object, or bring it to its declaration. Return the outcome. Raises Overtaken, Invalid, and as the store."""
    marks, metadata = signature(principal.caller), document["metadata"]
    ref = Ref(document["kind"], metadata.get("namespace", ""), metadata["name"])
    for _ in range(ATTEMPTS):
        try:
            current = await store.get(ref)
        except NotFound:
            try:
                await store.create(born(document, marks))
                return "created"
            except AlreadyExists:
                continue
        writes.check_free(current)
        if current["metadata"].get("deletionTimestamp"):
            raise invalid("", f"{ref} is still being deleted")
        check_current(document, current)
        wanted = over(document, current, marks)
        if but_version(wanted) == but_version(current):
            return "unchanged"
        try:
            await store.replace(wanted, current["metadata"]["resourceVersion"])
            return "changed"
        except Conflict:
            continue
    raise Conflict(f"{ref} keeps being changed by others; try again")


def _told(each: Declared, halt: Halt) -> str:
    """The refusal of a document, with its place."""
    return f"{each.place}: {halt.told}"
