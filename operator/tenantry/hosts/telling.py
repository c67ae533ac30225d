"""Log lines about objects, on every host: each event of an object, with its Operation and its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from structlog.contextvars import bound_contextvars

from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import KINDS
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref, ref_of
from tenantry.model.sharding.shards import Owns, owns_all, sharded_as
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.following.feed import log_news
from tenantry.runtime.operations.attribution import bound_tenant
from tenantry.runtime.operations.documents import DELETION
from tenantry.runtime.operations.traces import named
from tenantry.runtime.sources.news import News, of_object, of_operation
from tenantry.tracing.context import trace_id_of
from tenantry.tracing.work import SUBJECT


class ObjectSubject:
    """An object as log lines name it: by its newest Operation, or as the target of an Operation.

    gone: it was removed; its own status then names an Operation of before its deletion.
    """

    def __init__(self, document: Document, cache: Cache, gone: bool = False) -> None:
        self._document = document
        self._cache = cache
        self._gone = gone

    def fields(self, about: str = "") -> dict[str, str]:
        """Return the fields of a line about it."""
        document, metadata = self._document, self._document["metadata"]
        if document["kind"] == Operation.KIND:
            target, operation, tenant = document["spec"]["target"], metadata["name"], document["spec"].get("tenant", "")
            ref, uid = Ref(target["kind"], target.get("namespace") or "", target["name"]), target["uid"]
        else:
            ref, uid = ref_of(document), metadata.get("uid", "")
            last = ((document.get("status") or {}).get("lastOperation") or {}).get("id", "")
            operation = _deletion_of(uid, self._cache) if self._gone else last
            owner = bound_tenant(ref.namespace, self._cache)
            tenant = ref.name if ref.kind == Tenant.KIND else owner.metadata.name if owner is not None else ""
        fields = {**named(ref), "uid": uid, "operation": operation, "tenant": tenant, "trace_id": self._trace_of(operation)}
        return {name: value for name, value in fields.items() if value}

    def _trace_of(self, operation: str) -> str:
        held = self._cache.document(Operation.named(operation)) if operation else None
        return trace_id_of(held["status"].get("traceparent", "")) if held is not None else ""


def tell_objects(cache: Cache, owns: Owns = owns_all) -> Callable[[], None]:
    """Log the events of objects until the returned function is called. owns: which are this process's to log."""
    return cache.listen(partial(_seen, cache, owns))


def _seen(cache: Cache, owns: Owns, seen: Seen) -> None:
    news = tuple(_news(seen))
    entry = seen.after or seen.before
    document = entry.document() if news and entry is not None else None
    if document is not None and owns(sharded_as(document)):
        with bound_contextvars(**{SUBJECT: ObjectSubject(document, cache, gone=seen.after is None)}):
            log_news(news)


def _deletion_of(uid: str, cache: Cache) -> str:
    """The id of the Operation that deleted an object, `""` for one that was deleted without."""
    entries = cache.entries(Operation.KIND, SYSTEM_NAMESPACE, f"target={uid}")
    return next((ref.name for ref, entry in entries if entry.document()["spec"]["cause"] == DELETION), "")


def _news(seen: Seen) -> Iterator[News]:
    """The events of a change. An object that is new to the cache, and not by our own write, was there before."""
    if not seen.matters or (seen.before is None and seen.origin is None):
        return
    before, after = (each.document() if each else None for each in (seen.before, seen.after))
    if seen.ref.kind == Operation.KIND:
        yield from of_operation(before, after)
    elif seen.ref.kind in KINDS and before is not None:
        yield from of_object(before, after)
