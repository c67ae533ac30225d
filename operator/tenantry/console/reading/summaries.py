"""The lines of all objects, kept for lists and counts. They are made at the first visit and follow the cache from then on."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from tenantry.console.reading.orders import OrderedRows
from tenantry.console.reading.rights import TYPES
from tenantry.console.reading.summary import Summary, summary_of
from tenantry.model.resource import Ref
from tenantry.runtime.cache import Cache, Seen

SLICE = 250
"""Objects that are read before others have their turn, when the lines are made."""
Group = str | None


class Summaries:
    """The lines of all objects of a cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._rows: dict[Ref, Summary] = {}
        self._listed: defaultdict[tuple[str, Group], OrderedRows] = defaultdict(OrderedRows)
        self._stale: set[Ref] = set()
        self._opening = asyncio.Lock()
        self._following = False
        self.version = 0
        """Counts the changes of the cache that pages show."""

    async def follow(self) -> None:
        """Make the lines, once; others have their turn in between."""
        if not self._following or len(self._stale) > SLICE:
            async with self._opening:
                await self._open()
        self._refresh()

    async def _open(self) -> None:
        if not self._following:
            self._cache.listen(self._seen)
            self._stale.update(ref for kind in TYPES for ref, _ in self._cache.entries(kind))
            self._following = True
        while len(self._stale) > SLICE:
            for _ in range(SLICE):
                self._put(self._stale.pop())
            await asyncio.sleep(0)

    def rows(self, kind: str, group: Group) -> OrderedRows:
        """All of a kind that are in that group (None: in all). Valid until the next await."""
        self._refresh()
        return self._listed.get((kind, group)) or OrderedRows()

    def row(self, ref: Ref) -> Summary | None:
        """One object, or None."""
        self._refresh()
        return self._rows.get(ref)

    def _seen(self, seen: Seen) -> None:
        if seen.ref.kind in TYPES:
            self._stale.add(seen.ref)
            self.version += 1

    def _refresh(self) -> None:
        while self._stale:
            self._put(self._stale.pop())

    def _put(self, ref: Ref) -> None:
        self._take(ref)
        document = self._cache.document(ref)
        if document is None:
            return
        row = summary_of(ref, document)
        self._rows[ref] = row
        for group in (None, row.group):
            self._listed[ref.kind, group].add(row)

    def _take(self, ref: Ref) -> None:
        row = self._rows.pop(ref, None)
        if row is None:
            return
        for group in (None, row.group):
            rows = self._listed[ref.kind, group]
            rows.remove(row)
            if not rows:  # a namespace that is gone leaves nothing behind
                del self._listed[ref.kind, group]
