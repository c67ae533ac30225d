"""The commit that a source applied last, in the store: its copy of the repository is a cache and may be deleted.

A Source has it in its status (`settledRevision`). The source of `tenantry up` has no object of its own: the Namespace
tenantry-system carries it, in an annotation for each source's name.
"""

from __future__ import annotations

from tenantry.kinds.source.spec import Source
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref
from tenantry.model.syncing import source_label
from tenantry.model.verdicts import Conflict, NotFound
from tenantry.ports import Store
from tenantry.runtime.cache import Cache

PREFIX = "applied.tenantry.dev/"
ATTEMPTS = 5
_PLACE = Ref("Namespace", "", SYSTEM_NAMESPACE)


class StoredRevision:
    """The last commit of one source by its name, see adapters.sources.git.applied."""

    def __init__(self, store: Store, source: str) -> None:
        self._store = store
        self._name = PREFIX + source

    async def last(self) -> str:
        """Return the commit, `""` when there was none."""
        try:
            return _noted(await self._store.get(_PLACE), self._name)
        except NotFound:
            return ""

    async def note(self, commit: str) -> None:
        """Keep another commit. Raises Conflict where others write all the time."""
        for left in reversed(range(ATTEMPTS)):
            place = await self._store.get(_PLACE)
            metadata = place["metadata"]
            annotations = metadata.get("annotations") or {}
            if annotations.get(self._name) == commit:
                return
            noted = {**place, "metadata": {**metadata, "annotations": {**annotations, self._name: commit}}}
            try:
                await self._store.replace(noted, metadata["resourceVersion"])
                return
            except Conflict:
                if not left:
                    raise


def applied_by(cache: Cache, source: str) -> str:
    """Return the commit that was applied last by the owner of a source's name, a Source or `tenantry up`; `""` for none."""
    found = source_of_name(cache, source)
    return found.status.settled_revision or "" if found else _noted(cache.document(_PLACE), PREFIX + source)


def source_of_name(cache: Cache, source: str) -> Source | None:
    """Return the Source that owns objects by that name; None for the name of a folder, or of what `tenantry up` follows."""
    for found in cache.resources(Source.KIND):
        if isinstance(found, Source) and source_label(found.ref) == source:
            return found
    return None


def _noted(place: Document | None, name: str) -> str:
    return str((place["metadata"].get("annotations") or {}).get(name, "")) if place else ""
