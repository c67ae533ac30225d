"""A source's own objects in the cache, and the view of a source that is bound to a namespace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenantry.kinds.registry import DECLARED
from tenantry.model.resource import SOURCE, Document
from tenantry.runtime.cache import Cache, Seen


class CacheLists:
    """runtime.sync.Lists over the cache. namespace: the only one that it shows, None for all."""

    def __init__(self, cache: Cache, namespace: str | None) -> None:
        self._cache = cache
        self._namespace = namespace

    async def list(self, kind: str) -> tuple[Sequence[Document], str]:
        """The objects of a kind; of Namespaces the one that it is bound to."""
        entries = self._cache.entries(kind, None if kind == "Namespace" else self._namespace)
        shown = (entry for ref, entry in entries if kind != "Namespace" or self._namespace in (None, ref.name))
        return [entry.document() for entry in shown], ""


class Changes:
    """Counts what a sync would see of the cache's changes: where none has come, another look finds the same."""

    def __init__(self, cache: Cache) -> None:
        self._count = 0
        self._last: dict[str, int] = {}
        """The number of the last change of each namespace that is there."""
        self.close = cache.listen(self._seen)

    def version(self, namespace: str | None) -> str:
        """Another one after each change. namespace: the only one that is looked at, None for all."""
        return str(self._count if namespace is None else self._last.get(namespace, 0))

    def _seen(self, seen: Seen) -> None:
        kind, namespace, name = seen.ref
        if kind in DECLARED and seen.matters:
            self._count += 1
            self._last[name if kind == "Namespace" else namespace] = self._count
        if kind == "Namespace" and seen.after is None:
            self._last.pop(name, None)


def owned_by(cache: Cache, owner: str, namespace: str | None) -> Iterator[Document]:
    """The objects of a source that are not being deleted. owner: the value of their label."""
    mark = owner.encode()
    for kind in DECLARED:
        for _, entry in cache.entries(kind, namespace):
            # Most are others': only what may be its own is parsed.
            if mark in entry.raw and _is_owned(document := entry.document(), owner):
                yield document


def _is_owned(document: Document, owner: str) -> bool:
    metadata = document["metadata"]
    return (metadata.get("labels") or {}).get(SOURCE) == owner and not metadata.get("deletionTimestamp")
