"""Writes of resources as the facade makes them: named by the store's own decision, conditional, signed by their caller."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import count
from typing import Any, NamedTuple

from starlette.requests import Request

from tenantry.api.writing.preconditions import Marks, check_match
from tenantry.api.writing.turns import Turns
from tenantry.model.facts import Caller
from tenantry.model.fields import slug_problem
from tenantry.model.resource import (
    API_VERSION,
    FINALIZER,
    REQUESTED_BY,
    TRACEPARENT,
    Document,
    Ref,
    Resource,
    declared_at,
    held_of,
    source_of,
)
from tenantry.model.verdicts import AlreadyExists, Conflict, NotFound
from tenantry.ports import Packages
from tenantry.rest.bodies import invalid
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.revising import ATTEMPTS
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.tracing.work import traceparent


class WriteContext(NamedTuple):
    """The target of a write: the real store and cache, or those of a plan."""

    store: WritingStore
    cache: Cache
    packages: Packages
    sources: Container[str]
    """The sources that take writes: the store commits them."""
    turns: Turns

    def check_free(self, document: Document) -> None:
        """Raises Invalid, naming file, line and commit, for what a source declares that takes no writes."""
        if source_of(document) not in self.sources:
            refuse_declared(document)


def check_slug(slug: str) -> None:
    """Raises Invalid for a slug that is ill-formed or reserved."""
    problem = slug_problem(slug)
    if problem:
        raise invalid("slug", problem)


def refuse_declared(document: Document) -> None:
    """Raises Invalid, naming file, line and commit, for what a source declares."""
    if refusal := declared_elsewhere(document):
        raise invalid("", refusal)


def declared_elsewhere(document: Document) -> str:
    """Return the refusal of a write to what a source declares, naming file, line and commit; `""` for what none declares."""
    metadata, source = document["metadata"], source_of(document)
    place = declared_at(document) or f"source {source}"
    return f"{document['kind']} {metadata['name']} is declared in {place}: change it there" if source else ""


def new_document(
    kind: type[Resource[Any, Any]], namespace: str, spec: dict[str, Any], caller: Caller, marks: Marks | None
) -> dict[str, Any]:
    """A document that still lacks its name."""
    annotations = {**signature(caller), **(marks.annotations() if marks else {})}
    metadata: dict[str, Any] = {"annotations": annotations}
    if kind.FINALIZED:
        metadata["finalizers"] = [FINALIZER]
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": API_VERSION, "kind": kind.KIND, "metadata": metadata, "spec": spec}


def wants_slug(document: Document, slug: str) -> bool:
    """Return True if a Tenant or Environment holds or wants that slug."""
    held = document.get("status", {}).get("slug")
    wanted = document["spec"].get("slug") or document["metadata"]["name"]
    return slug in (held, wanted)


def names_of(slug: str) -> Iterator[str]:
    """The slug, then `<slug>-2`, `<slug>-3`, ... for when an older object has the name but no longer the slug."""
    yield slug
    for number in count(2):
        yield f"{slug}-{number}"


async def create_by_slug(store: WritingStore, document: dict[str, Any], slug: str) -> Document:
    """Creates it under the first free name. Raises Invalid when who has a name has the slug as well."""
    for name in names_of(slug):
        named = {**document, "metadata": {**document["metadata"], "name": name}}
        try:
            return await store.create(named)
        except AlreadyExists:
            if await _takes(store, named, slug):
                raise invalid("slug", f"{slug!r} is taken") from None
    raise AssertionError("unreachable: there is no end of names")


async def _takes(store: WritingStore, named: Document, slug: str) -> bool:
    metadata = named["metadata"]
    try:
        return wants_slug(await store.get(Ref(named["kind"], metadata.get("namespace", ""), metadata["name"])), slug)
    except NotFound:
        return False  # it has just gone; its successor has another name


async def edit(
    turns: Turns,
    store: WritingStore,
    request: Request,
    ref: Ref,
    caller: Caller,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    annotations: dict[str, str] | None = None,
    check: Callable[[Document], None] = lambda current: None,
) -> tuple[Document, Document]:
    """Replaces the spec by what `change` makes of it, and sets annotations, when the object's turn has come; the documents
    before and after, the same when nothing changes.

    check: of the document that is changed. Raises NotFound, Conflict (If-Match), Invalid, and what `check` raises.
    """

    def changed(current: Document) -> Document:
        check(current)
        check_match(request, current)
        spec = change(dict(current["spec"]))
        if spec == current["spec"] and not annotations:
            return current
        return signed({**current, "spec": spec}, caller, annotations)

    return await turns.revise(store, ref, changed)


async def remove(
    store: WritingStore, request: Request, ref: Ref, caller: Caller, check: Callable[[Document], None] = lambda current: None
) -> Document:
    """Deletes it, in the caller's name; what is being deleted already stays as it is.

    check: of the document that is deleted. Raises NotFound, Conflict, and what `check` raises.
    """
    for _ in range(ATTEMPTS):
        current = await store.get(ref)
        check_match(request, current)
        if current["metadata"].get("deletionTimestamp"):
            return current
        check(current)
        try:
            if not signature(caller).items() <= (current["metadata"].get("annotations") or {}).items():
                # Whoever opens the Operation, this process or the operator, reads there who asked.
                current = await store.replace(signed(current, caller), held_of(current).version)
            return await store.delete(held_of(current))
        except Conflict:
            continue
    raise Conflict(f"{ref.kind} {ref.name} keeps being changed by others; try again")


def signed(document: Document, caller: Caller, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """The document with the caller's name, the trace of the request, and with further annotations."""
    metadata = dict(document["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **signature(caller), **(annotations or {})}
    return {**document, "metadata": metadata}


def signature(caller: Caller) -> dict[str, str]:
    """Return the annotations that say who asked for a write, and in which trace."""
    trace = traceparent()
    return {REQUESTED_BY: caller.username} | ({TRACEPARENT: trace} if trace else {})
