"""The source of a caller's write: the one that declares the object, or that would declare a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.source.spec import WRITING, Source
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import SOURCE, SYSTEM_NAMESPACE, Document, Ref, Resource, ref_of, source_of
from tenantry.model.syncing import source_label
from tenantry.model.verdicts import Invalid, Problem
from tenantry.runtime.cache import Cache
from tenantry.runtime.sources.write_back import WRITTEN_BACK, WriteBack

Open = Callable[[Source], WriteBack]


class SourceWriters:
    """runtime.write_back.Writers over the Sources with `writeBack`, and the source that the platform was started with."""

    def __init__(self, cache: Cache, open_: Open, own: Callable[[], WriteBack | None] = lambda: None) -> None:
        """open_: how a Source is written; own: of the source that the platform was started with, where that takes writes."""
        self._cache = cache
        self._open = open_
        self._own = own

    def __contains__(self, source: object) -> bool:
        """Return True if that source takes writes."""
        own = self._own()
        return isinstance(source, str) and ((own is not None and own.source == source) or self._source(source) is not None)

    def of(self, source: str, namespace: str) -> WriteBack | None:
        """A tenant's Source is for its own namespace, whatever label is put on what is elsewhere.

        Raises Invalid for one that is suspended.
        """
        own = self._own()
        if own is not None and own.source == source:
            return own
        found = self._source(source)
        if found is None or found.metadata.namespace not in (SYSTEM_NAMESPACE, namespace):
            return None
        return self._opened(found)

    def home(self, document: Document) -> WriteBack | None:
        """A tenant's own Sources go before the platform's. Of several that which declares what the object belongs to is taken."""
        candidates = self._candidates(document["metadata"].get("namespace", ""))
        if not candidates:
            return None
        if len(candidates) == 1:
            return next(iter(candidates.values()))()
        chosen = next((around for around in self._around(document) if around in candidates), None)
        if chosen is None:
            named = ", ".join(sorted(candidates))
            reason = f"{ref_of(document)} could be declared by any of the sources {named}: declare it in one of them"
            raise Invalid((Problem("", reason),))
        return candidates[chosen]()

    def place_of(self, document: Document, *, new: bool) -> str:
        """Return the place of the commit that a write makes, `""` for one that commits nothing. new: it creates the object."""
        source, namespace = source_of(document), document["metadata"].get("namespace", "")
        if document["kind"] not in WRITTEN_BACK or not (source or new):
            return ""
        try:
            back = self.of(source, namespace) if source else self.home(document)
        except Invalid:  # the write is refused
            return ""
        return back.place if back is not None else ""

    def _candidates(self, namespace: str) -> Mapping[str, Callable[[], WriteBack]]:
        """By their names as owners."""
        inside = self._named(namespace) if namespace not in ("", SYSTEM_NAMESPACE) else {}
        if inside:
            return inside
        own = self._own()
        return {**self._named(SYSTEM_NAMESPACE), **({own.source: lambda: own} if own is not None else {})}

    def _named(self, namespace: str) -> dict[str, Callable[[], WriteBack]]:
        return {source_label(each.ref): partial(self._opened, each) for each in self._writing(namespace)}

    def _source(self, owner: str) -> Source | None:
        return next((each for each in self._writing() if source_label(each.ref) == owner), None)

    def _opened(self, source: Source) -> WriteBack:
        if source.suspended:
            reason = f"source {source_label(source.ref)} is suspended, and refuses writes until it is resumed"
            raise Invalid((Problem("", reason),))
        return self._open(source)

    def _writing(self, namespace: str | None = None) -> Iterator[Source]:
        found = self._cache.resources(Source.KIND, namespace, by=WRITING)
        return (each for each in found if isinstance(each, Source) and not each.deleting)

    def _around(self, document: Document) -> Iterator[str]:
        """The sources of what an object belongs to, the nearest first: its environment, its tenant."""
        spec, namespace = document["spec"], document["metadata"].get("namespace", "")
        if "environment" in spec:
            yield _source_of(self._cache.resource(Ref(Environment.KIND, namespace, str(spec["environment"]))))
        if "tenant" in spec:
            yield _source_of(self._cache.resource(Ref(Tenant.KIND, "", str(spec["tenant"]))))
        for tenant in self._cache.resources(Tenant.KIND, by=f"namespace={namespace}"):
            yield _source_of(tenant)


def _source_of(resource: Resource[Any, Any] | None) -> str:
    return resource.metadata.labels.get(SOURCE, "") if resource is not None else ""
