"""The lines of a kind that a caller may see."""

from __future__ import annotations

from collections.abc import Callable

from tenantry.console.reading.orders import OrderedRows
from tenantry.console.reading.rights import Rights, regions
from tenantry.console.reading.summaries import Summaries
from tenantry.kinds.region.spec import Region
from tenantry.runtime.cache import Cache


class Reading:
    """A cache with its lines, as one caller sees them."""

    def __init__(
        self, cache: Cache, summaries: Summaries, rights: Rights, takes_writes: Callable[[str], bool] = lambda source: False,
        keeps_backups: bool = False,
    ) -> None:  # fmt: skip
        """takes_writes: returns True for a source that REST's writes are committed to; keeps_backups: this host does."""
        self.keeps_backups = keeps_backups
        self.cache = cache
        self.summaries = summaries
        self.rights = rights
        self.takes_writes = takes_writes

    def rows(self, kind: str) -> OrderedRows:
        """All of a kind that the caller may see. Valid until the next await."""
        rows = self.summaries.rows(kind, self.rights.group(kind))
        if kind != Region.KIND or self.rights.superuser:
            return rows
        visible = {region.ref for region in regions(self.cache, self.rights)}
        return OrderedRows.of(row for row in rows if row.ref in visible)
